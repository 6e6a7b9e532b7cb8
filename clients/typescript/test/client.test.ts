/** The client at a server and a worker, which `tests/languages/test_typescript_package.py` starts. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, Connection } from '@temporalio/client';
import {
  HoldfastClient,
  HoldfastError,
  decisionOn,
  storedValue,
  type Event,
  type HoldfastErrorCode,
  type PendingApproval,
  type RunEnding,
} from '../src/client.js';
import { encryptionCodec } from '../examples/codec.js';

const POLL = { pollMs: 20 };
let connection: Connection;
let agents: HoldfastClient;

before(async () => {
  connection = await Connection.connect({ address: process.env['TEMPORAL_ADDRESS'] ?? '' });
  agents = new HoldfastClient(new Client({ connection }), process.env['TASK_QUEUE']);
});
after(async () => await connection.close());

/** A run that has asked to pay, and its pending call. */
async function asked(input = 'pay', client = agents): Promise<[string, PendingApproval]> {
  const run = await client.start('clerk', input);
  for await (const event of client.follow(run, POLL)) {
    if (event.type !== 'confirmation_required') continue;
    const [call] = await client.approvals(run);
    if (call) return [run, call];
  }
  throw new Error(`run ${run} has asked nothing`);
}

async function events(run: string): Promise<Event[]> {
  const read: Event[] = [];
  for await (const event of agents.follow(run, POLL)) read.push(event);
  return read;
}

async function refused(request: Promise<unknown>, code: HoldfastErrorCode): Promise<HoldfastError> {
  try {
    await request;
  } catch (error) {
    assert(error instanceof HoldfastError, String(error));
    assert.equal(error.code, code, error.message);
    return error;
  }
  return assert.fail(`it is not refused with ${code}`);
}

/** Each ending by its status: the compiler checks that none is missing. */
function told(ending: RunEnding): string {
  switch (ending.status) {
    case 'completed':
    case 'stopped':
      return `output ${ending.output}`;
    case 'budget_exceeded':
      return `reason ${ending.reason}`;
    case 'failed':
      return `${ending.code} after ${ending.spent?.turns} turns: ${ending.message}`;
    case 'cancelled':
    case 'terminated':
    case 'timed_out':
      return `${ending.status}: ${ending.message}`;
    default:
      return ending satisfies never;
  }
}

test('an approved call runs, and the result has the output', async () => {
  const [run, call] = await asked();
  assert.deepEqual([call.tool, call.arguments, call.kind], ['pay', { amount: 20 }, 'call']);
  const approval = decisionOn(call, 'approve', { by: 'ada' });
  assert.deepEqual([approval.digest, approval.nonce], [call.digest, call.nonce]);
  const receipt = await agents.decide(run, approval);
  assert.deepEqual([receipt.decision, receipt.decided], ['approve', true]);
  assert.equal(told(await agents.result(run)), 'output That is all.');
  const paid = (await events(run)).find((event) => event.type === 'tool_end');
  assert.equal(paid?.result, '{"paid": 20.0}');
  assert.deepEqual(await agents.approvals(run), []);
});

test('a denied call does not run', async () => {
  const [run, call] = await asked();
  await agents.decide(run, decisionOn(call, 'deny', { by: 'ben', reason: 'There is no photo.' }));
  assert.equal((await agents.result(run)).status, 'completed');
  const read = await events(run);
  assert.equal(
    read.some((event) => event.type === 'tool_start'),
    false,
  );
  const end = read.find((event) => event.type === 'tool_end');
  assert.equal(end?.error?.code, 'denied');
});

test('a decision on an earlier question is refused by its nonce, and by its digest', async () => {
  const [run, call] = await asked();
  const approval = decisionOn(call, 'approve');
  for (const stale of [{ nonce: 'f'.repeat(64) }, { digest: 'f'.repeat(64) }]) {
    const error = await refused(agents.decide(run, { ...approval, ...stale }), 'invalid_decision');
    assert.equal(error.run, run);
    assert.match(error.message, /look at it again|digest/);
  }
  await refused(agents.decide(run, { ...approval, callId: 't9c9' }), 'no_such_call');
  assert.equal((await agents.approvals(run)).length, 1);
});

test('a decision that is sent again counts once; another one is refused', async () => {
  const [run, call] = await asked('pay twice');
  const approval = decisionOn(call, 'approve', { by: 'ada' });
  const receipt = await agents.decide(run, approval);
  assert.deepEqual(await agents.decide(run, approval), receipt);
  const end = await refused(
    agents.decide(run, decisionOn(call, 'deny', { by: 'ben' })),
    'already_decided',
  );
  assert.match(end.message, /decided already/);
});

test('events are followed through continue-as-new, from any number on', async () => {
  const run = await agents.start('clerk', 'long');
  const read = await events(run);
  assert.deepEqual(
    read.map((event) => event.n),
    read.map((_, index) => index + 1),
  );
  assert.equal(read.filter((event) => event.type === 'tool_end').length, 6);
  assert.equal(read.at(-1)?.type, 'done');
  const { raw, runId } = await agents.temporal.workflow.getHandle(run).describe();
  assert.notEqual(raw.workflowExecutionInfo?.firstRunId, runId);
  assert.equal(told(await agents.result(run)), 'output I have looked.');
  const [next] = [await agents.follow(run, { after: 5 }).next()];
  assert.deepEqual(next.value, read[5]);
});

test('every event is followed where pages are bounded by their bytes', async () => {
  const run = await agents.start('clerk', 'much');
  assert.equal(told(await agents.result(run)), 'output That was much.');
  const read = await events(run);
  assert.equal(read.filter((event) => event.type === 'tool_end').length, 3);
  assert.equal(read.at(-1)?.type, 'done');
});

test('following waits for a step or a worker, and ends when its signal aborts', async () => {
  const [run] = await asked();
  const controller = new AbortController();
  const following = agents.follow(run, { ...POLL, after: 1_000, signal: controller.signal }).next();
  controller.abort();
  await assert.rejects(following, { name: 'AbortError' });
  const idle = new HoldfastClient(agents.temporal, 'a-queue-without-a-worker', 100);
  const unanswered = await idle.start('clerk', 'hello');
  const end = new AbortController();
  const waiting = idle.follow(unanswered, { ...POLL, signal: end.signal }).next();
  const refusals = refused(idle.approvals(unanswered), 'no_worker');
  await Promise.race([
    waiting,
    refusals.then(() => refused(idle.approvals(unanswered), 'no_worker')),
  ]);
  end.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  await agents.temporal.workflow.getHandle(unanswered).terminate();
});

test('a run that fails has the code of its error', async () => {
  const run = await agents.start('clerk', 'something that no scenario has');
  assert.match(told(await agents.result(run)), /^model_error after \d turns: /);
  assert.equal((await events(run)).at(-1)?.type, 'error');
  const nobody = await agents.start('nobody', 'hello');
  const ending = await agents.result(nobody);
  assert(ending.status === 'failed' && ending.code === 'invalid_request', told(ending));
});

test('a run that uses up its budget has the reason', async () => {
  const run = await agents.start('clerk', 'long', { budget: { maxTurns: 2 } });
  assert.match(told(await agents.result(run)), /^reason .*maxTurns/);
});

test('a run that is ended from outside has another status for each', async () => {
  const handles = agents.temporal.workflow;
  const [cancelled] = await asked();
  await handles.getHandle(cancelled).cancel();
  assert.equal((await agents.result(cancelled)).status, 'cancelled');
  const [terminated, call] = await asked();
  await handles.getHandle(terminated).terminate('It is over.');
  assert.equal(told(await agents.result(terminated)), 'terminated: It is over.');
  await refused(agents.decide(terminated, decisionOn(call, 'approve')), 'run_ended');
  assert.equal((await events(terminated)).at(-1)?.type, 'confirmation_required');
  const late = await agents.start('clerk', 'pay', { timeout: 1 });
  assert.equal((await agents.result(late)).status, 'timed_out');
});

test('a second start with an id starts nothing', async () => {
  const run = await agents.start('clerk', 'hello', { id: `hello-${process.pid}` });
  assert.equal(run, `hello-${process.pid}`);
  assert.equal(told(await agents.result(run)), 'output Hello.');
  assert.equal(await agents.start('clerk', 'pay', { id: run }), run);
  assert.equal(told(await agents.result(run)), 'output Hello.');
});

test('a run of a principal with a token has the id that the token is for', async () => {
  const idle = new HoldfastClient(agents.temporal, 'a-queue-without-a-worker', 500);
  const tokenOf = (payload: unknown) =>
    `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`;
  const started = async (token: string, options = {}) => {
    const run = await idle.start('clerk', 'hello', { principal: { token }, ...options });
    await agents.temporal.workflow.getHandle(run).terminate();
    return run;
  };
  const signed = tokenOf({ sub: 'ann', jti: `für-ann-${process.pid}` });
  assert.equal(await started(signed), `für-ann-${process.pid}`);
  assert.equal(await started(signed, { id: `own-${process.pid}` }), `own-${process.pid}`);
  for (const token of ['no token', tokenOf(null), tokenOf({ jti: 7 }), tokenOf({ jti: 'a\u200b' })])
    assert.match(await started(token), /^clerk-[0-9a-f]{8}$/);
});

test('an agent is written out in the request', async () => {
  const agent = {
    name: 'poet',
    model: { endpoint: 'demo', name: 'script' },
    instructions: 'Rhyme.',
  };
  assert.equal(told(await agents.result(await agents.start(agent, 'hello'))), 'output Hello.');
});

test('a run that is not there is no run, and without a worker nothing is sent', async () => {
  const nothing = 'no-such-run';
  await refused(agents.approvals(nothing), 'no_such_run');
  await refused(agents.result(nothing), 'no_such_run');
  await refused(agents.follow(nothing).next(), 'no_such_run');
  await refused(agents.decide(nothing, { callId: 't1c1', decision: 'deny' }), 'no_such_run');
  const idle = new HoldfastClient(agents.temporal, 'a-queue-without-a-worker', 500);
  const run = await idle.start('clerk', 'hello');
  await refused(idle.decide(run, { callId: 't1c1', decision: 'approve' }), 'no_worker');
  await agents.temporal.workflow.getHandle(run).terminate();
});

test('a value in the store is named', () => {
  const stored = { sha256: 'ab', sizeBytes: 3_000_000, beginning: 'It was' };
  assert.deepEqual(storedValue({ _stored: stored }), stored);
  for (const other of [null, 'text', {}, { _stored: stored, more: 1 }]) {
    assert.equal(storedValue(other), undefined);
  }
});

test('encrypted runs are decided with the keys of their workers, and are unreadable without', async () => {
  const key = Buffer.from(process.env['ENCRYPTION_KEY'] ?? '', 'base64');
  const dataConverter = { payloadCodecs: [encryptionCodec([['k1', key]])] };
  const encrypting = new Client({ connection, dataConverter });
  const secret = new HoldfastClient(encrypting, process.env['ENCRYPTED_QUEUE']);
  const long = 'pay '.repeat(1_000);
  const [run, call] = await asked(long, secret);
  await refused(agents.approvals(run), 'unreadable');
  await refused(agents.decide(run, decisionOn(call, 'deny')), 'unreadable');
  const stale = { ...decisionOn(call, 'approve'), digest: 'f'.repeat(64) };
  await refused(secret.decide(run, stale), 'invalid_decision');
  await secret.decide(run, decisionOn(call, 'approve', { by: 'ada' }));
  assert.equal(told(await secret.result(run)), 'output That is all.');
  await refused(agents.result(run), 'unreadable');
});

test('the first key encrypts, whatever its id, and each of them decrypts', async () => {
  const [current, retired] = [Buffer.alloc(32, 2), Buffer.alloc(32, 1)];
  const codec = encryptionCodec([
    ['2', current],
    ['1', retired],
  ]);
  const payload = { data: Buffer.from('hello') };
  const [written] = await codec.encode([payload]);
  assert.equal(Buffer.from(written?.metadata?.['encryption-key-id'] ?? '').toString(), '2');
  for (const one of [codec, encryptionCodec([['1', retired]])]) {
    const [read] = await codec.decode(await one.encode([payload]));
    assert.equal(Buffer.from(read?.data ?? '').toString(), 'hello');
  }
});

test('Temporal that does not answer is no missing worker', async () => {
  const nowhere = Connection.lazy({ address: '127.0.0.1:1' });
  const unreached = new HoldfastClient(new Client({ connection: nowhere }), 'holdfast', 300);
  await refused(unreached.start('clerk', 'hello'), 'unavailable');
  await refused(unreached.approvals('a-run'), 'unavailable');
  await refused(unreached.decide('a-run', { callId: 't1c1', decision: 'deny' }), 'unavailable');
  await refused(unreached.follow('a-run').next(), 'unavailable');
});
