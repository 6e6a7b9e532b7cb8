/**
 * Starts, follows and decides runs of Holdfast, over a client of Temporal.
 *
 *     const agents = new HoldfastClient(new Client({ connection }));
 *     const run = await agents.start('desk', 'Order 7 arrived broken.');
 *     for await (const event of agents.follow(run)) console.log(event.type);
 *     const ending = await agents.result(run);
 *
 * A run is named by its workflow id. Whatever fails raises a `HoldfastError` with a code. The client
 * of Temporal needs the data converter of the workers, if they encrypt payloads.
 */

import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  ApplicationFailure,
  CancelledFailure,
  QueryNotRegisteredError,
  ServiceError,
  TerminatedFailure,
  TimeoutFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  isGrpcServiceError,
  type Client,
  type WorkflowHandle,
} from '@temporalio/client';
import type {
  AgentDefinition,
  Decision,
  Event,
  PageRequest,
  PendingApproval,
  Receipt,
  RunRequest,
  RunResult,
  Usage,
} from './types.js';

export type * from './types.js';

const PAGE_ENTRIES = 200;
const MAX_SUMMARY_CHARS = 100; // Temporal takes 400 bytes
// A query gets lost when a worker evicts the run: it is repeated within the time for an answer.
const QUERY_TRIES = 3;
const BETWEEN_TRIES_MS = 100;
// Of a query that a worker answered in the middle of a workflow task: it is repeated.
const AHEAD_OF_HISTORY = 'a query moved the run ahead of its history';
// Codes of gRPC: cancelled, deadline exceeded; and no worker has started the run yet.
const UNANSWERED = [1, 4, 9];

/**
 * Why a request failed. The run rejects a decision as `invalid_decision` (it does not fit the call,
 * or its digest or its nonce is of an earlier question), `already_decided` or `no_such_call`.
 *
 * `no_such_run`, `run_ended`: there is no such run, or it has ended and takes nothing more.
 * `no_worker`: no worker answers, and nothing was sent. `unanswered`: a decision was sent and may
 * still count; sent again, it counts once. `query_failed`: the worker answers a query with an error.
 * `unavailable`: Temporal does not answer, or refuses; `cause` is its error. `unreadable`: the data
 * converter cannot read an answer: that of the workers is missing.
 */
export type HoldfastErrorCode =
  | 'invalid_decision'
  | 'already_decided'
  | 'no_such_call'
  | 'no_such_run'
  | 'run_ended'
  | 'no_worker'
  | 'unanswered'
  | 'query_failed'
  | 'unavailable'
  | 'unreadable';

/** What is wrong with a request to a run. */
export class HoldfastError extends Error {
  override readonly name = 'HoldfastError';

  constructor(
    readonly code: HoldfastErrorCode,
    message: string,
    /** The run, by its workflow id. */
    readonly run: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** The fields of a run's request beside its agent and its input, and how Temporal has the run. */
export interface StartOptions extends Omit<RunRequest, 'agent' | 'input'> {
  /**
   * The run's workflow id; a second start with it returns the same run. Without it, a principal's
   * token has the id, as its `jti`.
   */
  id?: string;
  /** After which time Temporal ends the run, waiting for people included: `24h`, or milliseconds. */
  timeout?: `${number}${'s' | 'm' | 'h' | 'd'}` | number;
}

export interface FollowOptions {
  /** The number of the last event that is read already. */
  after?: number;
  /** How often Temporal is asked whether the run has moved. */
  pollMs?: number;
  /** Ends the iteration with an `AbortError`. */
  signal?: AbortSignal;
}

/** A run that failed: the code and the message of its error, and what it had used, where known. */
export interface RunFailure {
  status: 'failed';
  /** `invalid_request`, `model_error`, `approval_timeout`, or what ended it otherwise. */
  code: string;
  message: string;
  spent?: { turns: number; calls: number; usage: Usage };
}

/** A run that was ended from outside. */
export interface RunInterruption {
  status: 'cancelled' | 'terminated' | 'timed_out';
  message: string;
}

/** How a run ended, by its `status`: a `RunResult` has ended by itself, and has the output. */
export type RunEnding = RunResult | RunFailure | RunInterruption;

/** A value that is in the store of the workers, and not in Temporal: it is not fetched here. */
export interface StoredValue {
  sha256: string;
  sizeBytes: number;
  /** Its first characters: of a text as it is, of all else as JSON. */
  beginning: string;
}

/** The reference to a value in the store, where an output or a result is one. */
export function storedValue(value: unknown): StoredValue | undefined {
  if (typeof value !== 'object' || value === null || !('_stored' in value)) return undefined;
  return Object.keys(value).length === 1 ? (value._stored as StoredValue) : undefined;
}

/**
 * A decision on a pending call as it was read, by its digest and its nonce: the run rejects the
 * decision if the call has changed since, or was started again.
 */
export function decisionOn(
  call: PendingApproval,
  decision: Decision['decision'],
  fields: Omit<Decision, 'callId' | 'decision' | 'digest' | 'nonce'> = {},
): Decision {
  const nonce = call.nonce === undefined ? {} : { nonce: call.nonce };
  return { ...fields, callId: call.callId, decision, digest: call.digest, ...nonce };
}

export class HoldfastClient {
  /** `taskQueue` is that of the workers; within `answerMs`, one of them answers, or none does. */
  constructor(
    readonly temporal: Client,
    readonly taskQueue: string = 'holdfast',
    private readonly answerMs: number = 10_000,
  ) {}

  /**
   * Start a run of an agent of the workers, by its name, or of one that is written out, and return
   * its id. If there is a run with this id, open or ended, it starts nothing.
   */
  async start(
    agent: string | AgentDefinition,
    input?: RunRequest['input'],
    options: StartOptions = {},
  ): Promise<string> {
    const { id, timeout, ...fields } = options;
    const request: RunRequest = { agent, ...(input !== undefined && { input }), ...fields };
    const name = (typeof agent === 'string' ? agent : agent.name) ?? 'agent';
    const workflowId =
      id ??
      runOfToken(fields.principal) ??
      `${name.replace(/[^\w.-]+/g, '-').slice(0, 100)}-${randomUUID().slice(0, 8)}`;
    const subject = typeof input === 'string' ? input : JSON.stringify(input ?? {});
    try {
      await this.ask(workflowId, () =>
        this.temporal.workflow.start('AgentWorkflow', {
          args: [request],
          taskQueue: this.taskQueue,
          workflowId,
          workflowIdConflictPolicy: 'FAIL',
          workflowIdReusePolicy: 'REJECT_DUPLICATE',
          staticSummary: `${name}: ${subject}`.replace(/\s+/g, ' ').slice(0, MAX_SUMMARY_CHARS),
          ...(timeout !== undefined && { workflowExecutionTimeout: timeout }),
        }),
      );
    } catch (error) {
      const { cause } = error as HoldfastError;
      if (!(cause instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    return workflowId;
  }

  /**
   * Yield the events after a number, and those that follow until the run has ended.
   *
   * The last one is `done` or `error`, unless the run was terminated or timed out. While no worker
   * answers, it waits. It asks Temporal for the run's position, and a worker only after a step.
   */
  async *follow(run: string, options: FollowOptions = {}): AsyncGenerator<Event, void, undefined> {
    const { pollMs = 500, signal } = options;
    let after = options.after ?? 0;
    let readAt = '';
    for (;;) {
      signal?.throwIfAborted();
      const { status, runId, historyLength } = await this.ask(run, (handle) => handle.describe());
      const isOpen = status.name === 'RUNNING' || status.name === 'CONTINUED_AS_NEW';
      const position = `${runId} ${historyLength}`;
      try {
        while (position !== readAt) {
          const request: PageRequest = { after, limit: PAGE_ENTRIES };
          const page = await this.query<Event[]>(run, 'events', request);
          for (const event of page) {
            after = event.n;
            yield event;
            if (event.type === 'done' || event.type === 'error') return;
          }
          if (page.length === 0) readAt = position; // a page is also bounded by its bytes
        }
        if (!isOpen) return;
      } catch (error) {
        if (!(error instanceof HoldfastError && error.code === 'no_worker')) throw error;
      }
      await pause(pollMs, undefined, signal && { signal });
    }
  }

  /** Return the pending approvals of a run. */
  async approvals(run: string): Promise<PendingApproval[]> {
    return await this.query<PendingApproval[]>(run, 'approvals');
  }

  /**
   * Send a decision and return the run's receipt.
   *
   * The update's id is made of the decision and the nonce of its question, so one that is sent again
   * counts once, and with its nonce returns the same receipt.
   */
  async decide(run: string, decision: Decision): Promise<Receipt> {
    const pending = await this.approvals(run); // whether a worker answers, too
    const asked = pending.find((call) => call.callId === decision.callId);
    const content = JSON.stringify([run, decision.nonce ?? asked?.nonce, decision]);
    const updateId = createHash('sha256').update(content).digest('hex');
    return await this.ask(run, (handle) =>
      handle.executeUpdate<Receipt, [Decision]>('decide', { args: [decision], updateId }),
    );
  }

  /** Wait for the end of a run, through continue-as-new; it needs no worker. */
  async result(run: string): Promise<RunEnding> {
    try {
      return await this.temporal.workflow.getHandle(run).result();
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw explained(error, run);
      return endingOf(error);
    }
  }

  private async query<T>(run: string, name: string, ...args: object[]): Promise<T> {
    const end = Date.now() + this.answerMs;
    for (;;) {
      try {
        const ms = Math.min(end - Date.now(), this.answerMs / QUERY_TRIES);
        return await this.ask(
          run,
          (handle) => handle.query<T, object[]>(name, ...args),
          ms,
          'no_worker',
        );
      } catch (error) {
        const { code, message } = error as HoldfastError;
        const isRepeated = code === 'no_worker' || message.includes(AHEAD_OF_HISTORY);
        if (!isRepeated) throw error;
        if (Date.now() + BETWEEN_TRIES_MS >= end) {
          await this.ask(run, (handle) => handle.describe()); // or Temporal does not answer
          throw error;
        }
      }
      await pause(BETWEEN_TRIES_MS);
    }
  }

  /** Send a request within a time; `late` is the code of one that is not answered then. */
  private async ask<T>(
    run: string,
    send: (handle: WorkflowHandle) => Promise<T>,
    ms = this.answerMs,
    late: HoldfastErrorCode = 'unavailable',
  ): Promise<T> {
    try {
      const handle = this.temporal.workflow.getHandle(run);
      return await this.temporal.withDeadline(Date.now() + ms, () => send(handle));
    } catch (error) {
      throw explained(error, run, late);
    }
  }
}

/** The workflow id that a principal's token is for; the worker reports a token without one. */
function runOfToken(principal: RunRequest['principal']): string | undefined {
  if (!principal || !('token' in principal)) return undefined;
  try {
    const [, payload = ''] = principal.token.split('.');
    const { jti } = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const isPrintable = typeof jti === 'string' && /^(?:[^\p{C}\p{Z}]| )+$/u.test(jti);
    return isPrintable ? jti : undefined;
  } catch {
    return undefined;
  }
}

function endingOf(error: WorkflowFailedError): RunFailure | RunInterruption {
  const { cause } = error;
  const message = cause?.message ?? error.message;
  if (cause instanceof CancelledFailure) return { status: 'cancelled', message };
  if (cause instanceof TerminatedFailure) return { status: 'terminated', message };
  if (cause instanceof TimeoutFailure) return { status: 'timed_out', message };
  if (!(cause instanceof ApplicationFailure)) return { status: 'failed', code: 'failed', message };
  const spent = cause.details?.[0] as RunFailure['spent'] | undefined;
  return { status: 'failed', code: cause.type ?? 'failed', message, ...(spent && { spent }) };
}

/** The error of a request to a run, as what it means to the caller. */
function explained(
  error: unknown,
  run: string,
  late: HoldfastErrorCode = 'unavailable',
): HoldfastError {
  const failed = (code: HoldfastErrorCode, message: string) =>
    new HoldfastError(code, message, run, error);
  if (error instanceof WorkflowUpdateFailedError) {
    const { cause } = error;
    return cause instanceof ApplicationFailure
      ? failed(cause.type as HoldfastErrorCode, cause.message)
      : failed('run_ended', `run ${run} ended before it answered: ${cause?.message}`);
  }
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) {
    return failed(
      'unanswered',
      `run ${run} has not answered: sent again, the decision counts once`,
    );
  }
  if (error instanceof WorkflowNotFoundError) {
    return error.message.includes('already completed')
      ? failed('run_ended', `run ${run} has ended`)
      : failed('no_such_run', `there is no run ${run}: ${error.message}`);
  }
  if (error instanceof QueryNotRegisteredError) {
    return failed('query_failed', `run ${run} does not answer: ${error.message}`);
  }
  const cause = error instanceof ServiceError ? error.cause : undefined;
  if (isGrpcServiceError(cause)) {
    const code = UNANSWERED.includes(cause.code) ? late : 'unavailable';
    const who = code === 'no_worker' ? 'no worker answers' : 'Temporal does not answer, or refuses';
    return failed(code, `${who}: ${cause.details}`);
  }
  const reason = error instanceof Error ? error.message : String(error);
  return failed('unreadable', `the answer for run ${run} cannot be read here: ${reason}`);
}
