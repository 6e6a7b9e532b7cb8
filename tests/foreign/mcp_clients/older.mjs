// The TypeScript SDK of revision 2025-06-18.
import { Client } from "sdk-2025-06-18/client/index.js";
import { StdioClientTransport } from "sdk-2025-06-18/client/stdio.js";
import { ElicitRequestSchema } from "sdk-2025-06-18/types.js";

const { server, answer, tool, args } = JSON.parse(process.argv[2]);
const print = (each) => console.log(JSON.stringify(each));

const capabilities = answer ? { elicitation: {} } : {};
const client = new Client({ name: "older", version: "1" }, { capabilities });
if (answer) {
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    print({ form: params });
    return { action: "accept", content: answer };
  });
}
const transport = new StdioClientTransport(server);
let revision;
transport.setProtocolVersion = (version) => (revision = version);
await client.connect(transport);
await client.listTools(); // the results are validated by the schemas that are listed
let result = await client.callTool({ name: tool, arguments: args });
if (result.structuredContent?.run) {
  print({ unfinished: result });
  const { run } = result.structuredContent;
  result = await client.callTool({ name: "wait_run", arguments: { run } });
}
print({ result, revision });
await client.close();
