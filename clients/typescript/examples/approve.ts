/** Starts a run, shows each call that is pending, and passes on what a person decides. */

import { createInterface } from 'node:readline/promises';
import { Client, Connection } from '@temporalio/client';
import { HoldfastClient, decisionOn, type PendingApproval } from 'holdfast-client';

/** A line of standard input; empty at its end. */
async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const end = new AbortController();
  terminal.once('close', () => end.abort());
  try {
    return (await terminal.question(question, { signal: end.signal })).trim();
  } catch {
    return '';
  } finally {
    terminal.close();
  }
}

async function decide(agents: HoldfastClient, run: string, call: PendingApproval): Promise<void> {
  console.log(`${call.label}: ${JSON.stringify(call.arguments)}`);
  console.log(`Why: ${call.reasoning}`);
  const verdict = (await ask('Approve? [y/N] ')) === 'y' ? 'approve' : 'deny';
  const by = process.env['USER'] ?? 'someone';
  console.log('Receipt:', await agents.decide(run, decisionOn(call, verdict, { by })));
}

async function main(agent: string, input: string): Promise<void> {
  const connection = await Connection.connect({
    address: process.env['TEMPORAL_ADDRESS'] ?? '127.0.0.1:7233',
  });
  const namespace = process.env['TEMPORAL_NAMESPACE'] ?? 'default';
  const agents = new HoldfastClient(new Client({ connection, namespace }));
  const run = await agents.start(agent, input);
  console.log(`Run ${run}`);
  for await (const event of agents.follow(run)) {
    if (event.type !== 'confirmation_required') continue;
    for (const call of await agents.approvals(run)) await decide(agents, run, call);
  }
  console.log(JSON.stringify(await agents.result(run), null, 2));
  await connection.close();
}

const [agent, input] = process.argv.slice(2);
if (agent && input) await main(agent, input);
else console.error('usage: npm run approve -- AGENT INPUT');
