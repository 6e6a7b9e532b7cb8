/** Starts an agent, shows the call that waits for a person, passes on what they decide. */

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';

const WAIT_MS = 60_000;
const BETWEEN_MS = 200;

/** Of what the query `approvals` answers (`schemas/waiting.schema.json`), the part shown here. */
interface Waiting {
  callId: string;
  label: string;
  arguments: Record<string, unknown>;
  reasoning: string | null;
  digest: string;
}

/** The first call that waits; none if the run ended without one. */
async function firstWaiting(run: WorkflowHandle): Promise<Waiting | undefined> {
  const end = Date.now() + WAIT_MS;
  while (Date.now() < end) {
    const [waiting] = await run.query<Waiting[]>('approvals');
    if (waiting) return waiting;
    if ((await run.describe()).status.name !== 'RUNNING') return undefined;
    await pause(BETWEEN_MS);
  }
  throw new Error(`nothing waited for a person within ${WAIT_MS / 1000} s: do both workers run?`);
}

/** The first line of standard input; empty where there is none. */
async function ask(question: string): Promise<string> {
  process.stdout.write(question);
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdin.pause(); // or an open terminal keeps the program alive
    return line.trim();
  }
  return '';
}

async function decide(run: WorkflowHandle, waiting: Waiting): Promise<void> {
  console.log(`${waiting.label}: ${JSON.stringify(waiting.arguments)}`);
  console.log(`Why: ${waiting.reasoning}`);
  const decision = {
    callId: waiting.callId,
    decision: (await ask('Approve? [y/N] ')) === 'y' ? 'approve' : 'deny',
    digest: waiting.digest,
    by: process.env['USER'] ?? 'somebody',
  };
  if (process.argv.includes('--signal')) await run.signal('approve', decision);
  else console.log('Receipt:', await run.executeUpdate('decide', { args: [decision] }));
}

async function main(): Promise<void> {
  const connection = await Connection.connect({
    address: process.env['TEMPORAL_ADDRESS'] ?? '127.0.0.1:7233',
  });
  const run = await new Client({ connection }).workflow.start('AgentWorkflow', {
    taskQueue: 'holdfast',
    workflowId: `refund-${randomUUID()}`,
    args: [{ agent: 'cashier', input: 'The machine of order 1042 arrived broken.' }],
  });
  console.log(`Run ${run.workflowId}`);
  const waiting = await firstWaiting(run);
  if (waiting) await decide(run, waiting);
  console.log(JSON.stringify(await run.result(), null, 2));
  await connection.close();
}

main().catch((error: Error) => {
  console.error(error.cause instanceof Error ? error.cause.message : error.message);
  process.exitCode = 1;
});
