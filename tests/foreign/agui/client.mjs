// The official AG-UI client: one agent, which runs once for each line of its input.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

const { url, headers, threadId } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url, headers, threadId });
const print = (each) => console.log(JSON.stringify(each));
console.warn = (...text) => print({ warning: text.join(" ") });
console.error = () => {}; // each failure is printed below
// Of a stream that breaks off, the library throws the error twice: `runAgent` rejects with it, too.
process.on("unhandledRejection", () => {});
process.on("uncaughtException", () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const { say, id, resume, until } = JSON.parse(line);
  if (say) agent.messages.push({ id, role: "user", content: say });
  const events = [];
  let reached = 0;
  let outcome = null;
  let error = null;
  const subscriber = {
    onEvent: ({ event }) => {
      events.push(event);
      if (event.type === until && !reached++) print({ reached: event });
    },
    onRunFinishedEvent: ({ event }) => void (outcome = event.outcome),
    onRunErrorEvent: ({ event }) => void (error = { code: event.code, message: event.message }),
  };
  let failure = null;
  try {
    await agent.runAgent({ resume }, subscriber);
  } catch (thrown) {
    failure = String(thrown);
  }
  print({ events, outcome, error, failure, messages: agent.messages, state: agent.state });
}
