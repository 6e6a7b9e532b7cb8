// The newest TypeScript SDK, by the revision that it negotiates (`auto`) or an older one (`legacy`).
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { server, mode, answer, tool, args } = JSON.parse(process.argv[2]);
const print = (each) => console.log(JSON.stringify(each));

const capabilities = answer ? { elicitation: { form: {} } } : {};
const options = { capabilities, versionNegotiation: { mode } };
const client = new Client({ name: "current", version: "1" }, options);
if (answer) {
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    print({ form: params });
    return { action: "accept", content: answer };
  });
}
await client.connect(new StdioClientTransport(server));
await client.listTools(); // the results are validated by the schemas that are listed
let result = await client.callTool({ name: tool, arguments: args });
if (result.structuredContent?.run) {
  print({ unfinished: result });
  const { run } = result.structuredContent;
  result = await client.callTool({ name: "wait_run", arguments: { run } });
}
print({ result, revision: client.getNegotiatedProtocolVersion() });
await client.close();
