// The newest TypeScript SDK with the extension of tasks.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const { server, mode, answer, tool, args } = JSON.parse(process.argv[2]);
const print = (each) => console.log(JSON.stringify(each));

const clientInfo = { name: "tasks", version: "1" };
const clientCapabilities = answer ? { elicitation: { form: {} } } : {};
const client = new Client(clientInfo, {
  capabilities: clientCapabilities,
  versionNegotiation: { mode },
});
const transport = new StdioClientTransport(server);
await client.connect(transport);
const protocolVersion = client.getNegotiatedProtocolVersion();

// The extension's results are not the SDK's: its requests go past it, by ids of their own.
const open = new Map();
let sent = 0;
const receive = transport.onmessage;
transport.onmessage = (message, extra) => {
  const settle = open.get(message.id);
  if (!settle) return receive(message, extra);
  open.delete(message.id);
  const { error, result } = message;
  settle(error ? { kind: "error", error } : { kind: "result", result });
};
const rawDispatch = (request) =>
  new Promise((settle) => {
    const id = `raw-${++sent}`;
    open.set(id, settle);
    transport.send({ jsonrpc: "2.0", id, ...request });
  });

const session = createTaskSessionFromClient(client, {
  endpointId: "holdfast",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: async ({ params }) => {
    print({ form: params });
    return { action: "accept", content: answer };
  },
});
const execution = await session.callTool(tool, args);
let isShown = false;
const { outcome } = await execution.settle({
  onEvent: ({ task }) => {
    if (isShown || answer || !task?.statusMessage) return;
    isShown = true;
    print({ unfinished: { taskId: task.taskId, content: [{ text: task.statusMessage }] } });
  },
});
print({ kind: execution.kind, ...outcome, revision: protocolVersion });
await session.close();
await client.close();
