/* Written by `make schemas` from holdfast/schemas/*.schema.json. */

/**
 * This interface was referenced by `Schemas`'s JSON-Schema
 * via the `definition` "JsonValue".
 */
export type JsonValue = unknown;
/**
 * A JSON Schema, draft 2020-12; `true` is for any value, `false` for none.
 */
export type JsonSchema = boolean | {[keyword: string]: unknown};
/**
 * `budgets.yaml`: a list of budgets.
 *
 * @maxItems 20
 */
export type Budgets = SharedBudget[];
/**
 * Why a call has no result of its own.
 */
export type ErrorCode =
  | 'tool_not_allowed'
  | 'invalid_arguments'
  | 'invalid_output'
  | 'unresolved_reference'
  | 'denied'
  | 'approval_timeout'
  | 'timeout'
  | 'tool_error'
  | 'outcome_unknown'
  | 'token_scope_insufficient'
  | 'blocked'
  | 'delegate_failed'
  | 'cancelled';
/**
 * An event of a run, as the query `events` answers it.
 */
export type Event = Event1 & Event2;
export type Event1 =
  | NoticeEntry
  | SkillEntry
  | ForkedEntry
  | RemarkEntry
  | TurnStartEntry
  | ToolCallEntry
  | ConfirmationRequiredEntry
  | ToolStartEntry
  | ToolEndEntry
  | BudgetThresholdEntry
  | KnowledgeUsedEntry
  | TurnEndEntry
  | DoneEntry
  | ErrorEntry;

export interface Schemas {
  [k: string]: unknown;
}
/**
 * Which activity carries a tool out, and how.
 */
export interface ActivityBinding {
  /**
   * The name that the activity is registered under.
   */
  type: string;
  /**
   * Where its worker listens; unset, it is the run's own worker.
   */
  taskQueue?: string | null;
  /**
   * Run it on the run's own worker at once: for what is short and repeatable.
   */
  local?: boolean;
  /**
   * What it is given: the arguments alone, or the call, the tool and the call's context; by
   * places in the arguments, such as `customer.id`, one parameter for each or one object.
   */
  input?:
    | ('arguments' | 'call')
    | string[]
    | {
        [k: string]: string;
      };
  /**
   * The longest that one attempt may take (default: 30s).
   */
  startToCloseTimeout?: string | null;
  /**
   * The longest that all attempts and waits may take.
   */
  scheduleToCloseTimeout?: string | null;
  /**
   * The longest silence of an activity that heartbeats.
   */
  heartbeatTimeout?: string | null;
  /**
   * When and how often it is tried again.
   */
  retry?: Retry;
}
/**
 * The approval policy for tools without one, and the tools whose calls need no person.
 */
export interface AgentApproval {
  /**
   * Which calls wait for a person (default: those with side effects).
   */
  require?: ('side_effects' | 'always' | 'never') | null;
  /**
   * A schema of the arguments: only calls that fit it wait.
   */
  when?: JsonSchema | boolean | null;
  /**
   * How long a call waits (default: 7d).
   */
  timeout?: string | null;
  /**
   * What happens to a call that no one decided on (default: deny).
   */
  onTimeout?: ('deny' | 'fail' | 'approve') | null;
  /**
   * How long until people are asked again.
   */
  remind?: string | null;
  /**
   * The groups whose members may decide; none: anyone.
   */
  approvers?: string[] | null;
  /**
   * Which further groups may decide, and after how long.
   */
  forward?: Forward[] | null;
  /**
   * How many people must approve (default: 1).
   */
  quorum?: number | null;
  /**
   * `principal`: the run's own principal may not decide.
   */
  notBy?: 'principal' | null;
  /**
   * Only a signed decision counts: one with a `token` (default: false).
   */
  signed?: boolean | null;
  /**
   * What an approval has done, for its button: `refund of {amount}`, with arguments by name.
   */
  effect?: string | null;
  /**
   * The tools whose calls need no person.
   */
  auto?: string[];
}
/**
 * When a call needs an approval, who approves it, and how long it waits.
 *
 * Unset fields fall back: to the agent's defaults, then to `APPROVAL_DEFAULTS`.
 */
export interface ApprovalPolicy {
  /**
   * Which calls wait for a person (default: those with side effects).
   */
  require?: ('side_effects' | 'always' | 'never') | null;
  /**
   * A schema of the arguments: only calls that fit it wait.
   */
  when?: JsonSchema | boolean | null;
  /**
   * How long a call waits (default: 7d).
   */
  timeout?: string | null;
  /**
   * What happens to a call that no one decided on (default: deny).
   */
  onTimeout?: ('deny' | 'fail' | 'approve') | null;
  /**
   * How long until people are asked again.
   */
  remind?: string | null;
  /**
   * The groups whose members may decide; none: anyone.
   */
  approvers?: string[] | null;
  /**
   * Which further groups may decide, and after how long.
   */
  forward?: Forward[] | null;
  /**
   * How many people must approve (default: 1).
   */
  quorum?: number | null;
  /**
   * `principal`: the run's own principal may not decide.
   */
  notBy?: 'principal' | null;
  /**
   * Only a signed decision counts: one with a `token` (default: false).
   */
  signed?: boolean | null;
  /**
   * What an approval has done, for its button: `refund of {amount}`, with arguments by name.
   */
  effect?: string | null;
}
/**
 * A policy for the calls whose arguments fit its `when`: one of a tool's list.
 *
 * The first rule that fits is the policy of a call. A call that no rule fits has the defaults.
 */
export interface ApprovalRule {
  /**
   * Which calls wait for a person (default: those with side effects).
   */
  require?: ('side_effects' | 'always' | 'never') | null;
  /**
   * A schema of the arguments: only calls that fit it wait.
   */
  when?: JsonSchema | boolean | null;
  /**
   * How long a call waits (default: 7d).
   */
  timeout?: string | null;
  /**
   * What happens to a call that no one decided on (default: deny).
   */
  onTimeout?: ('deny' | 'fail' | 'approve') | null;
  /**
   * How long until people are asked again.
   */
  remind?: string | null;
  /**
   * The groups whose members may decide; none: anyone.
   */
  approvers?: string[] | null;
  /**
   * Which further groups may decide, and after how long.
   */
  forward?: Forward[] | null;
  /**
   * How many people must approve (default: 1).
   */
  quorum?: number | null;
  /**
   * `principal`: the run's own principal may not decide.
   */
  notBy?: 'principal' | null;
  /**
   * Only a signed decision counts: one with a `token` (default: false).
   */
  signed?: boolean | null;
  /**
   * What an approval has done, for its button: `refund of {amount}`, with arguments by name.
   */
  effect?: string | null;
  /**
   * Its name for people, such as `finance, two people` (default: who approves).
   */
  name?: string | null;
  /**
   * Which calls it is for, such as `amount is over €1,000` (default: its `when` in words).
   */
  description?: string | null;
}
/**
 * How much a run may use, and in a conversation each message.
 *
 * An unset field falls back: to the agent's, then to `BUDGET_DEFAULTS`; what those leave unset has
 * no bound.
 */
export interface Budget {
  /**
   * Rounds of calls, before the model is asked to finish (default: 6).
   */
  maxIterations?: number | null;
  /**
   * Requests to the model (default: 8).
   */
  maxTurns?: number | null;
  /**
   * Calls, those refused included (default: 32).
   */
  maxCalls?: number | null;
  /**
   * Time at work; waiting for people is not counted.
   */
  maxDuration?: string | null;
  /**
   * Tokens, as the provider reports them.
   */
  maxTokens?: number | null;
  /**
   * Cost, by the endpoint's prices.
   */
  maxCost?: number | null;
  /**
   * Calls of one tool in a row.
   */
  maxSameTool?: number | null;
  /**
   * Delegates of delegates (default: 4).
   */
  maxDepth?: number | null;
  /**
   * In a conversation, the limits of one message, over those beside them.
   */
  perMessage?: BudgetLimits | null;
  /**
   * The limits of the whole run, all messages of a conversation together.
   */
  total?: BudgetLimits | null;
}
/**
 * The most of each budget; what is unset has no bound.
 */
export interface BudgetLimits {
  /**
   * Rounds of calls, before the model is asked to finish (default: 6).
   */
  maxIterations?: number | null;
  /**
   * Requests to the model (default: 8).
   */
  maxTurns?: number | null;
  /**
   * Calls, those refused included (default: 32).
   */
  maxCalls?: number | null;
  /**
   * Time at work; waiting for people is not counted.
   */
  maxDuration?: string | null;
  /**
   * Tokens, as the provider reports them.
   */
  maxTokens?: number | null;
  /**
   * Cost, by the endpoint's prices.
   */
  maxCost?: number | null;
  /**
   * Calls of one tool in a row.
   */
  maxSameTool?: number | null;
  /**
   * Delegates of delegates (default: 4).
   */
  maxDepth?: number | null;
}
/**
 * How often and with what a tool may be called in a run, and when it has to be.
 */
export interface CallLimits {
  /**
   * The most calls in a run.
   */
  perRun?: number | null;
  /**
   * The tools that must have succeeded before in the run.
   */
  after?: string[];
  /**
   * From this turn on the model must call it, unless it has.
   */
  forceAtStep?: number | null;
  /**
   * The most bytes of a call's arguments, as JSON (at most, and by default: 1,000,000).
   */
  maxArgumentsBytes?: number | null;
}
/**
 * A tool choice that names the tool to call.
 */
export interface ForcedTool {
  /**
   * The tool that must be called.
   */
  name: string;
}
/**
 * When further groups are asked to decide, too.
 */
export interface Forward {
  /**
   * How long after the request, unless it is decided by then.
   */
  after: string;
  /**
   * The groups whose members may decide from then on.
   *
   * @minItems 1
   * @maxItems 20
   */
  to: string[];
}
/**
 * Something to know, offered as a tool and fetched only when that is called.
 *
 * One of a file of the catalog, an address that the worker allows, a text, and an activity.
 */
export interface Knowledge {
  /**
   * The name that the model calls it by.
   */
  name: string;
  /**
   * What it is about, for the model.
   */
  description?: string;
  /**
   * A file, relative to the catalog's folder and inside it.
   */
  file?: string | null;
  /**
   * An address; the worker's settings list those that are allowed.
   */
  url?: string | null;
  /**
   * The text itself.
   */
  text?: string | null;
  /**
   * An activity that returns it, as it is when the model asks.
   */
  activity?: string | ActivityBinding | null;
  /**
   * The model is shown it as data, not as instructions; what is at an address always is.
   */
  untrusted?: boolean;
}
/**
 * Which model is asked. `endpoint` names an entry of the worker's own configuration.
 */
export interface ModelSettings {
  /**
   * The name of an endpoint of the worker's own configuration.
   */
  endpoint: string;
  /**
   * The model's name, as its provider has it.
   */
  name?: string;
  /**
   * How much chance there is in the answers; null leaves it to the provider.
   */
  temperature?: number | null;
  /**
   * The longest answer.
   */
  maxOutputTokens?: number | null;
  /**
   * How long the model thinks before it answers; unset, its provider decides.
   */
  reasoning?: ('none' | 'low' | 'medium' | 'high') | null;
  /**
   * What the model takes beside text; unset, all that its provider's format carries.
   */
  accepts?: ('image' | 'document')[] | null;
  /**
   * What else the provider takes, in its own words.
   */
  options?: {
    [k: string]: unknown;
  };
  /**
   * How long a request that fails is made again (default: as long as the worker allows; 2m
   * where another model follows).
   */
  retryFor?: string | null;
}
/**
 * An agent that corrects the arguments of calls, in a run of its own.
 */
export interface RepairAgent {
  /**
   * The name of an agent of the worker.
   */
  agent: string;
}
/**
 * When and how often a failed activity is tried again.
 */
export interface Retry {
  /**
   * How often it is tried in all (default: 5).
   */
  maximumAttempts?: number | null;
  /**
   * How long to wait before the second attempt (default: 1s).
   */
  initialInterval?: string | null;
  /**
   * By how much each wait is longer than the one before (default: 2).
   */
  backoffCoefficient?: number | null;
  /**
   * The longest wait (default: 60s).
   */
  maximumInterval?: string | null;
  /**
   * Types of errors after which it is not tried again.
   */
  nonRetryableErrorTypes?: string[];
}
/**
 * A named part of an agent, with tools, knowledge and instructions of its own.
 */
export interface SkillDefinition {
  /**
   * The skill's name.
   */
  name: string;
  /**
   * What it is for: the model chooses by it.
   */
  description?: string;
  /**
   * A schema of the run's input: of a run that names no skill, the first that fits is used, and
   * no model chooses.
   */
  when?: JsonSchema | boolean | null;
  /**
   * What is added to the system prompt.
   */
  instructions?: string;
  /**
   * Its tools, besides the agent's own.
   */
  tools?: (string | ToolDefinition)[];
  /**
   * Its knowledge, besides the agent's own.
   */
  knowledge?: Knowledge[];
  /**
   * Give the agent's memory to this skill, where the agent itself has none.
   */
  memory?: boolean;
  /**
   * An activity that does the whole work of the skill: no model is asked.
   */
  activity?: string | ActivityBinding | null;
  /**
   * Whether the activity changes the world; unset, the rules of the activity's tool hold.
   */
  sideEffects?: boolean | null;
}
/**
 * A tool as a person writes it: a JSON Schema (draft 2020-12) with meta-properties.
 *
 * Besides the meta-properties below, every keyword of JSON Schema is allowed.
 */
export interface ToolDefinition {
  /**
   * The dialect: https://json-schema.org/draft/2020-12/schema.
   */
  $schema?: string;
  /**
   * The schema's own address.
   */
  $id?: string;
  /**
   * A name by which the schema is referred to.
   */
  $anchor?: string;
  /**
   * A name that a schema around this one may take over.
   */
  $dynamicAnchor?: string;
  /**
   * The schema at another place of this one, such as `#/$defs/money`.
   */
  $ref?: string;
  /**
   * The schema that has taken over a dynamic anchor.
   */
  $dynamicRef?: string;
  /**
   * The vocabularies of a dialect.
   */
  $vocabulary?: {};
  /**
   * A note to the readers of the schema.
   */
  $comment?: string;
  /**
   * Schemas that this one refers to, by name.
   */
  $defs?: {
    [k: string]: JsonSchema;
  };
  /**
   * What `$defs` was called before.
   */
  definitions?: {
    [k: string]: JsonSchema;
  };
  /**
   * What `dependentSchemas` was called before.
   */
  dependencies?: {};
  /**
   * A short name for people.
   */
  title?: string | null;
  /**
   * What the tool does, for the model.
   */
  description?: string | null;
  /**
   * The value where none is given.
   */
  default?: {
    [k: string]: unknown;
  };
  /**
   * Values that fit.
   */
  examples?: unknown[];
  /**
   * It should not be used any more.
   */
  deprecated?: boolean;
  /**
   * It is not written to.
   */
  readOnly?: boolean;
  /**
   * It is not read back.
   */
  writeOnly?: boolean;
  /**
   * Arguments are an object.
   */
  type?: 'object';
  /**
   * The values that fit.
   */
  enum?: unknown[];
  /**
   * The one value that fits.
   */
  const?: {
    [k: string]: unknown;
  };
  /**
   * What the text is, such as `date-time` or `email`.
   */
  format?: string;
  /**
   * How the text encodes bytes, such as `base64`.
   */
  contentEncoding?: string;
  /**
   * The media type of what the text holds.
   */
  contentMediaType?: string;
  /**
   * The schema of what the text holds.
   */
  contentSchema?: JsonSchema;
  /**
   * A regular expression for the text.
   */
  pattern?: string;
  /**
   * The fewest characters.
   */
  minLength?: number;
  /**
   * The most characters.
   */
  maxLength?: number;
  /**
   * The least number.
   */
  minimum?: number;
  /**
   * The greatest number.
   */
  maximum?: number;
  /**
   * The number is greater than this.
   */
  exclusiveMinimum?: number;
  /**
   * The number is less than this.
   */
  exclusiveMaximum?: number;
  /**
   * The number is a multiple of this.
   */
  multipleOf?: number;
  /**
   * The schema of each item.
   */
  items?: JsonSchema;
  /**
   * The schemas of the first items, one by one.
   *
   * @minItems 1
   */
  prefixItems?: JsonSchema[];
  /**
   * The schema of at least one item.
   */
  contains?: JsonSchema;
  /**
   * How many items fit `contains` at least.
   */
  minContains?: number;
  /**
   * How many items fit `contains` at most.
   */
  maxContains?: number;
  /**
   * The fewest items.
   */
  minItems?: number;
  /**
   * The most items.
   */
  maxItems?: number;
  /**
   * No item comes twice.
   */
  uniqueItems?: boolean;
  /**
   * The schema of the items that no other keyword is about.
   */
  unevaluatedItems?: JsonSchema;
  /**
   * The parameters, by name; meta-properties may stand here as schemas.
   */
  properties?: {
    /**
     * The tool's name; unset, it is the file's.
     */
    _tool?: {
      /**
       * The tool's name; unset, it is the file's.
       */
      const: string | null;
    };
    /**
     * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
     */
    _parameters?: {
      /**
       * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
       */
      const: JsonSchema | null;
    };
    /**
     * The schema of the result.
     */
    _output?: JsonSchema | boolean | null;
    /**
     * Where the result is written, such as `†state.refund`.
     */
    _outputPath?: {
      /**
       * Where the result is written, such as `†state.refund`.
       */
      const?: string | null;
    };
    /**
     * How the result is written (default: set).
     */
    _outputMethod?: {
      /**
       * How the result is written (default: set).
       */
      const?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
    };
    /**
     * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
     */
    _scopes?: {
      /**
       * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
       */
      const?: string[] | null;
    };
    /**
     * Whose data its calls read and write, in a run with instances; unset, each call names it.
     */
    _instance?: {
      /**
       * Whose data its calls read and write, in a run with instances; unset, each call names it.
       */
      const?: string | null;
    };
    /**
     * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
     */
    _delegate?: {
      /**
       * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
       */
      const: string | null;
    };
    /**
     * Only a person can answer its calls: each is pending with the form of its `_output`.
     */
    _person?: {
      /**
       * Only a person can answer its calls: each is pending with the form of its `_output`.
       */
      const: boolean;
    };
    /**
     * The activity that runs it: its name, or more; unset, one of the tool's name. Where
     * there is none, the model itself answers.
     */
    _activity?: {
      /**
       * The activity that runs it: its name, or more; unset, one of the tool's name. Where
       * there is none, the model itself answers.
       */
      const: string | ActivityBinding | null;
    };
    /**
     * It has side effects: unless its approval is set otherwise, a person decides.
     */
    _sideEffects?: {
      /**
       * It has side effects: unless its approval is set otherwise, a person decides.
       */
      const: boolean;
    };
    /**
     * Running a call twice is as good as once (default: not `_sideEffects`).
     */
    _idempotent?: {
      /**
       * Running a call twice is as good as once (default: not `_sideEffects`).
       */
      const: boolean | null;
    };
    /**
     * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
     */
    _approval?: {
      /**
       * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
       */
      const: ApprovalPolicy | ApprovalRule[] | null;
    };
    /**
     * The scopes that the run's principal must hold.
     */
    _requires?: {
      /**
       * The scopes that the run's principal must hold.
       */
      const: string[];
    };
    /**
     * A turn that holds a call of it carries its calls out one at a time.
     */
    _sequential?: {
      /**
       * A turn that holds a call of it carries its calls out one at a time.
       */
      const: boolean;
    };
    /**
     * A call may name a list in `_each`: it runs for each item, and its result is a list.
     */
    _each?: {
      /**
       * A call may name a list in `_each`: it runs for each item, and its result is a list.
       */
      const: boolean;
    };
    /**
     * How often it may be called, after which tools, how large, and when it must be.
     */
    _limits?: {
      /**
       * How often it may be called, after which tools, how large, and when it must be.
       */
      const: CallLimits | null;
    };
    /**
     * Its results come from outside: the model is shown them as data, not as instructions.
     */
    _untrusted?: {
      /**
       * Its results come from outside: the model is shown them as data, not as instructions.
       */
      const: boolean;
    };
    /**
     * What of a result the model reads.
     */
    _show?: {
      /**
       * What of a result the model reads.
       */
      const: ('full' | 'preview' | 'none') | null;
    };
    /**
     * A name for people's screens.
     */
    _label?: {
      /**
       * A name for people's screens.
       */
      const: string | null;
    };
    /**
     * A hook: `(arguments)` gives other arguments, before they are checked.
     */
    _prepare?: {
      /**
       * A hook: `(arguments)` gives other arguments, before they are checked.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    /**
     * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
     * whose output they are.
     */
    _repair?: {
      /**
       * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
       * whose output they are.
       */
      const:
        | (
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | RepairAgent
          )
        | null;
    };
    /**
     * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
     */
    _before?: {
      /**
       * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    /**
     * A hook: `(call, result)` replaces parts of the result, or stops the run.
     */
    _after?: {
      /**
       * A hook: `(call, result)` replaces parts of the result, or stops the run.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    [k: string]:
      | JsonSchema
      | boolean
      | {
          /**
           * The tool's name; unset, it is the file's.
           */
          const: string | null;
        }
      | {
          /**
           * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
           */
          const: JsonSchema | null;
        }
      | null
      | {
          /**
           * Where the result is written, such as `†state.refund`.
           */
          const?: string | null;
        }
      | {
          /**
           * How the result is written (default: set).
           */
          const?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
        }
      | {
          /**
           * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
           */
          const?: string[] | null;
        }
      | {
          /**
           * Whose data its calls read and write, in a run with instances; unset, each call names it.
           */
          const?: string | null;
        }
      | {
          /**
           * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
           */
          const: string | null;
        }
      | {
          /**
           * Only a person can answer its calls: each is pending with the form of its `_output`.
           */
          const: boolean;
        }
      | {
          /**
           * The activity that runs it: its name, or more; unset, one of the tool's name. Where
           * there is none, the model itself answers.
           */
          const: string | ActivityBinding | null;
        }
      | {
          /**
           * It has side effects: unless its approval is set otherwise, a person decides.
           */
          const: boolean;
        }
      | {
          /**
           * Running a call twice is as good as once (default: not `_sideEffects`).
           */
          const: boolean | null;
        }
      | {
          /**
           * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
           */
          const: ApprovalPolicy | ApprovalRule[] | null;
        }
      | {
          /**
           * The scopes that the run's principal must hold.
           */
          const: string[];
        }
      | {
          /**
           * A turn that holds a call of it carries its calls out one at a time.
           */
          const: boolean;
        }
      | {
          /**
           * A call may name a list in `_each`: it runs for each item, and its result is a list.
           */
          const: boolean;
        }
      | {
          /**
           * How often it may be called, after which tools, how large, and when it must be.
           */
          const: CallLimits | null;
        }
      | {
          /**
           * Its results come from outside: the model is shown them as data, not as instructions.
           */
          const: boolean;
        }
      | {
          /**
           * What of a result the model reads.
           */
          const: ('full' | 'preview' | 'none') | null;
        }
      | {
          /**
           * A name for people's screens.
           */
          const: string | null;
        }
      | {
          /**
           * A hook: `(arguments)` gives other arguments, before they are checked.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | {
          /**
           * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
           * whose output they are.
           */
          const:
            | (
                | ((string | ActivityBinding) & {
                    input?: never;
                    local?: never;
                  })
                | RepairAgent
              )
            | null;
        }
      | {
          /**
           * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | {
          /**
           * A hook: `(call, result)` replaces parts of the result, or stops the run.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | undefined;
  };
  /**
   * The parameters that must be given.
   */
  required?: string[];
  /**
   * The schema of the other properties; `false`: none.
   */
  additionalProperties?: JsonSchema;
  /**
   * Schemas of properties by a regular expression.
   */
  patternProperties?: {
    [k: string]: JsonSchema;
  };
  /**
   * The schema of the names.
   */
  propertyNames?: JsonSchema;
  /**
   * The fewest properties.
   */
  minProperties?: number;
  /**
   * The most properties.
   */
  maxProperties?: number;
  /**
   * Which properties must be there if one is.
   */
  dependentRequired?: {
    [k: string]: string[];
  };
  /**
   * Which schemas must fit if a property is there.
   */
  dependentSchemas?: {
    [k: string]: JsonSchema;
  };
  /**
   * The schema of the properties that no other is about.
   */
  unevaluatedProperties?: JsonSchema;
  /**
   * Schemas that all fit.
   *
   * @minItems 1
   */
  allOf?: JsonSchema[];
  /**
   * Schemas of which one or more fit.
   *
   * @minItems 1
   */
  anyOf?: JsonSchema[];
  /**
   * Schemas of which exactly one fits.
   *
   * @minItems 1
   */
  oneOf?: JsonSchema[];
  /**
   * A schema that does not fit.
   */
  not?: JsonSchema;
  /**
   * Where this fits, `then` must; elsewhere, `else`.
   */
  if?: JsonSchema;
  /**
   * The schema where `if` fits.
   */
  then?: JsonSchema;
  /**
   * The schema where `if` does not fit.
   */
  else?: JsonSchema;
  /**
   * The tool's name; unset, it is the file's.
   */
  _tool?: string | null;
  /**
   * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
   */
  _parameters?: JsonSchema | null;
  /**
   * The schema of the result.
   */
  _output?: JsonSchema | boolean | null;
  /**
   * Where the result is written, such as `†state.refund`.
   */
  _outputPath?: string | null;
  /**
   * How the result is written (default: set).
   */
  _outputMethod?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
  /**
   * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
   */
  _scopes?: string[] | null;
  /**
   * Whose data its calls read and write, in a run with instances; unset, each call names it.
   */
  _instance?: string | null;
  /**
   * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
   */
  _delegate?: string | null;
  /**
   * Only a person can answer its calls: each is pending with the form of its `_output`.
   */
  _person?: boolean;
  /**
   * The activity that runs it: its name, or more; unset, one of the tool's name. Where
   * there is none, the model itself answers.
   */
  _activity?: string | ActivityBinding | null;
  /**
   * It has side effects: unless its approval is set otherwise, a person decides.
   */
  _sideEffects?: boolean;
  /**
   * Running a call twice is as good as once (default: not `_sideEffects`).
   */
  _idempotent?: boolean | null;
  /**
   * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
   */
  _approval?: ApprovalPolicy | ApprovalRule[] | null;
  /**
   * The scopes that the run's principal must hold.
   */
  _requires?: string[];
  /**
   * A turn that holds a call of it carries its calls out one at a time.
   */
  _sequential?: boolean;
  /**
   * A call may name a list in `_each`: it runs for each item, and its result is a list.
   */
  _each?: boolean;
  /**
   * How often it may be called, after which tools, how large, and when it must be.
   */
  _limits?: CallLimits | null;
  /**
   * Its results come from outside: the model is shown them as data, not as instructions.
   */
  _untrusted?: boolean;
  /**
   * What of a result the model reads.
   */
  _show?: ('full' | 'preview' | 'none') | null;
  /**
   * A name for people's screens.
   */
  _label?: string | null;
  /**
   * A hook: `(arguments)` gives other arguments, before they are checked.
   */
  _prepare?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
   * whose output they are.
   */
  _repair?:
    | (
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | RepairAgent
      )
    | null;
  /**
   * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
   */
  _before?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(call, result)` replaces parts of the result, or stops the run.
   */
  _after?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  [k: string]: unknown;
}
/**
 * An agent as a person writes it, in JSON, YAML or the front matter of a Markdown file.
 */
export interface Agent {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The agent's name; unset, it is the file's.
   */
  name?: string | null;
  /**
   * What it is for.
   */
  description?: string | null;
  /**
   * What people read as the title of its runs: a text in which `{property}` is a value of the
   * input, `Refund of order {order}`. Before a message without properties, its subject follows.
   */
  title?: string | null;
  /**
   * The system prompt; in a Markdown file, the text below the front matter.
   */
  instructions?: string;
  /**
   * Which model is asked: its settings, or `endpoint:name`; of a list, the next one where one
   * fails, for the rest of the run. None with `calls`, or where each skill is an activity.
   */
  model?: string | ModelSettings | (string | ModelSettings)[] | null;
  /**
   * Constant calls in place of a model, each with its tool in `_tool` and its arguments beside
   * it: they refer to the input, and to what others write.
   *
   * @minItems 1
   * @maxItems 100
   */
  calls?: {
    /**
     * The tool.
     */
    _tool: string;
    [k: string]: JsonValue | string;
  }[];
  /**
   * The output, with references; unset, it is the model's answer, or the last constant call's
   * result.
   */
  answer?: JsonValue;
  /**
   * How tools are called: `native` is the provider's own way, `composed` one structured answer
   * with all calls and the output.
   */
  calling?: 'native' | 'composed';
  /**
   * Names of the catalog, and tools that are written out here.
   */
  tools?: (string | ToolDefinition)[];
  /**
   * Named parts, of which a run has one.
   */
  skills?: SkillDefinition[];
  /**
   * In a conversation, whether the model may change to another skill with `choose_skill`.
   */
  changeSkill?: boolean;
  /**
   * What can be fetched when the model asks for it.
   */
  knowledge?: Knowledge[];
  /**
   * Give it `memory_read`, `memory_write` and `memory_search`: what it keeps outlives the run.
   */
  memory?: boolean;
  /**
   * The schema of a run's input.
   */
  input?: JsonSchema | boolean | null;
  /**
   * The schema of the output; unset, it is text.
   */
  output?: JsonSchema | boolean | null;
  /**
   * The schema of a run's state.
   */
  state?: JsonSchema | boolean | null;
  /**
   * Whether the model must call a tool in its first turn, and which.
   */
  toolChoice?: ('auto' | 'none' | 'required') | ForcedTool;
  /**
   * How much a run may use.
   */
  budget?: Budget;
  /**
   * What becomes of a run that has used up a budget.
   */
  onLimit?: {
    [k: string]: 'finalize' | 'fail' | 'ask';
  };
  /**
   * The share of a budget at which people are notified, once.
   */
  onThreshold?: {
    [k: string]: number;
  };
  /**
   * How many calls of a turn run at a time.
   */
  concurrency?: number;
  /**
   * When calls wait for a person, unless their tool sets it.
   */
  approval?: AgentApproval;
  /**
   * When calls are run: `eager` is as the model makes them, `lazy` once a person has
   * approved all calls of an answer.
   */
  plan?: 'eager' | 'lazy';
  /**
   * The most that a run may hold of scopes; unset, all that its principal has.
   */
  principalScopes?: string[] | null;
  /**
   * Require the model to state with each call why it makes it.
   */
  reasoningForCall?: boolean;
  /**
   * A hook for all its calls: see a tool's `_prepare`.
   */
  _prepare?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook for all its calls: see a tool's `_repair`.
   */
  _repair?:
    | (
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | RepairAgent
      )
    | null;
  /**
   * A hook for all its calls: see a tool's `_before`.
   */
  _before?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook for all its calls: see a tool's `_after`.
   */
  _after?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(request)` changes what the model is shown in one request, or stops the run.
   */
  _beforeModel?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(failure)` answers for a model that failed, or chooses what to do about it.
   */
  _onModelError?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(answer)` lets the output pass, replaces it or sends it back, or stops the run.
   */
  _afterAnswer?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
}
/**
 * How much all runs of a scope may use together, in each day, week or month.
 */
export interface SharedBudget {
  /**
   * Its name, in logs and lists.
   */
  name: string;
  /**
   * The runs that share it: those of a principal, an agent, a team, or all.
   */
  per: 'principal' | 'agent' | 'team' | 'all';
  /**
   * The time after which it begins again; a week begins on Monday.
   */
  window: 'day' | 'week' | 'month';
  /**
   * The time zone of the window, such as Europe/Berlin.
   */
  zone?: string;
  /**
   * Cost, by the endpoints' prices.
   */
  maxCost?: number | null;
  /**
   * The currency of `max_cost` (default: that of the endpoints, if all prices have the same).
   */
  currency?: string | null;
  /**
   * Tokens, of requests and answers.
   */
  maxTokens?: number | null;
  /**
   * Runs that request a model.
   */
  maxRuns?: number | null;
  /**
   * Calls of a tool, by the tool's name.
   */
  maxCalls?: {
    [k: string]: number;
  };
  /**
   * The part of a limit at which the log warns.
   */
  warnAt?: number;
  /**
   * What a run does whose request does not fit: `finalize`, `fail` or `ask`.
   */
  onLimit?: 'finalize' | 'fail' | 'ask';
  /**
   * Who decides with `ask` (default: the approvers of the run's agent).
   */
  approvers?: string[] | null;
  /**
   * The tokens that a request reserves (default: its estimated input and `maxOutputTokens`).
   */
  reserve?: number | null;
}
/**
 * On whose behalf a run acts, and the scopes that they hold.
 */
export interface Principal {
  /**
   * Who it is.
   */
  id: string;
  /**
   * What they may do.
   */
  scopes?: string[];
  /**
   * Until when calls with side effects or required scopes start: until the token expires. From
   * then on they wait for the update `renew`.
   */
  expiresAt?: string | null;
}
/**
 * On whose behalf a run acts, by a token: a JWT, which the worker verifies.
 */
export interface PrincipalToken {
  /**
   * The JWT: `sub` is the principal's id; `scopes` (a list) or `scope` (a text, divided by
   * spaces) are theirs; `jti` is the workflow id of the run, `aud` `holdfast:principal`.
   */
  token: string;
}
/**
 * The input of `CallWorkflow`: one call of one tool.
 *
 * `arguments` may hold those meta-properties that the tool leaves open, as a model's call may.
 */
export interface CallRequest {
  /**
   * The name of a tool of the worker, or one that is written out here.
   */
  tool: string | ToolDefinition;
  /**
   * What the tool is called with.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
  /**
   * On whose behalf the call is made.
   */
  principal?: (Principal | PrincipalToken) | null;
  /**
   * `deny`: where it would wait for a person, it is denied.
   */
  approvals?: 'ask' | 'deny';
}
/**
 * One person's decision on one pending call.
 *
 * For a call whose outcome is unknown (kind `reconcile`): `happened` (or `respond`) takes `result`
 * as what it returned; `did_not_happen` (or `approve`), with the `digest` and the `nonce` of this
 * attempt, runs it again; `give_up` (or `deny`) does not. For a plan: `approve` runs all of it,
 * `edit` takes `arguments` of the form in which they are shown, and strikes out the calls that are
 * left out of them, `deny` runs none. For a budget: `approve` grants the same amount again,
 * `edit` sets `arguments`, `deny` ends the run, in a conversation its message. For a call that
 * only a person can answer (kind `input`): `respond` takes `result` as the answer, `deny` gives
 * none.
 */
export interface Decision {
  /**
   * The pending call.
   */
  callId: string;
  /**
   * What is to become of it.
   */
  decision: 'approve' | 'deny' | 'edit' | 'respond' | 'happened' | 'did_not_happen' | 'give_up';
  /**
   * For `edit`: all arguments of the call; of a plan, its `calls`.
   */
  arguments?: {
    [k: string]: JsonValue;
  } | null;
  /**
   * For `respond` and `happened`: the call's result.
   */
  result?: JsonValue;
  /**
   * Why; after a denial the model reads it.
   */
  reason?: string | null;
  /**
   * Who decides.
   */
  by?: string | null;
  /**
   * The groups that they decide for.
   *
   * @maxItems 100
   */
  groups?: string[];
  /**
   * The people who are away, and whose substitute they are. The inbox sets it; it gives no right:
   * the decision is refused if one of these people may not decide.
   *
   * @maxItems 20
   */
  onBehalfOf?: string[];
  /**
   * Decide only if the call is still the one with this digest.
   */
  digest?: string | null;
  /**
   * Decide only on the question with this nonce: of this attempt, in this execution.
   */
  nonce?: string | null;
  /**
   * Approve every further call of the tool in this run.
   */
  remember?: boolean;
  /**
   * A JWT that names the approver and the call: `by`, `groups` and `onBehalfOf` are then taken
   * from it.
   */
  token?: string | null;
}
/**
 * One key: 32 bytes, written in base64 or in hexadecimal where it is kept.
 */
export interface EncryptionKey {
  /**
   * The key's name in payloads, where it is not encrypted.
   */
  id: string;
  /**
   * The environment variable that holds the key; never the key.
   */
  env?: string | null;
  /**
   * The file that holds the key, seen from the folder of this one.
   */
  file?: string | null;
}
/**
 * `encryption.yaml`: the keys of a worker, and of the clients of its runs.
 */
export interface Encryption {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The first encrypts; every one decrypts.
   *
   * @minItems 1
   * @maxItems 100
   */
  keys: EncryptionKey[];
}
/**
 * Requests are signed with AWS credentials, found as the AWS command line finds them.
 */
export interface AwsAuth {
  type: 'aws';
  /**
   * The region of the service (default: that of the address, else of the worker's settings).
   */
  region?: string | null;
  /**
   * A profile of the AWS configuration files.
   */
  profile?: string | null;
}
/**
 * Requests carry a token of Microsoft Entra, found as Azure's libraries find it.
 */
export interface AzureAuth {
  type: 'azure';
  /**
   * What the token is for.
   */
  scope?: string;
}
/**
 * One model server: its format, its address, and where its key is.
 */
export interface Endpoint {
  /**
   * The format of the server; `script` answers from a file.
   */
  provider:
    'openai' | 'openai-responses' | 'anthropic' | 'ollama' | 'gemini' | 'bedrock' | 'script';
  /**
   * Where it is, such as https://api.openai.com/v1.
   */
  baseUrl?: string | null;
  /**
   * The environment variable that holds the key; never the key.
   */
  apiKeyEnv?: string | null;
  /**
   * The worker's identity in a cloud, in place of a key.
   */
  auth?: (AwsAuth | GoogleAuth | AzureAuth) | null;
  /**
   * Headers of every request, none of them secret.
   */
  headers?: {
    [k: string]: string;
  };
  /**
   * Further headers: of each, the environment variable that holds its value.
   */
  headersEnv?: {
    [k: string]: string;
  };
  /**
   * Whether the server is handed the addresses of pictures, which it then fetches (default: a
   * provider's own servers are).
   */
  imageUrls?: boolean | null;
  /**
   * The longest silence of a model that is answering.
   */
  timeout?: string;
  /**
   * The most requests a minute, of all workers together.
   */
  maxRequestsPerMinute?: number | null;
  /**
   * What its models can take in, in tokens, where that is not known by their names.
   */
  contextWindow?: number | null;
  /**
   * What tokens cost.
   */
  price?: Price | null;
  /**
   * The answers of the provider `script`, in YAML or JSON.
   */
  file?: string | null;
}
/**
 * Requests carry an access token of Google's Application Default Credentials.
 */
export interface GoogleAuth {
  type: 'google';
}
/**
 * The price of a million tokens.
 *
 * Tokens that are read from the provider's cache, or written to it, cost `input` unless `cached`
 * or `cache_write` is set.
 */
export interface Price {
  /**
   * Of a million tokens of the request.
   */
  input: number;
  /**
   * Of a million tokens of the answer.
   */
  output: number;
  /**
   * Of a million tokens of the request that the provider had kept (default: `input`).
   */
  cached?: number | null;
  /**
   * Of a million tokens of the request that the provider now keeps (default: `input`).
   */
  cacheWrite?: number | null;
  /**
   * The currency, such as EUR (default: none is stated).
   */
  currency?: string | null;
}
/**
 * `endpoints.yaml`: endpoints by name.
 */
export interface Endpoints {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string;
  [k: string]: Endpoint | string | undefined;
}
/**
 * What answers a call with these arguments, in place of its tool.
 */
export interface CaseAnswer {
  /**
   * The tool.
   */
  tool: string;
  /**
   * The arguments, whole.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
  /**
   * What the tool returns.
   */
  result?: JsonValue;
  /**
   * In place of a result, why it fails.
   */
  error?: string | null;
}
/**
 * The decision on a call with these arguments; without one, it is approved.
 */
export interface CaseDecision {
  /**
   * The tool.
   */
  tool: string;
  /**
   * The arguments, whole.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
  /**
   * The decision.
   */
  decision: 'deny' | 'edit' | 'respond';
  /**
   * The arguments in place of these, with `decision: edit`.
   */
  edit?: {
    [k: string]: JsonValue;
  } | null;
  /**
   * The answer of a person, with `decision: respond`.
   */
  result?: JsonValue;
  /**
   * Why.
   */
  reason?: string | null;
}
/**
 * What answers a hook of a call in place of its activity; a use without one changes nothing.
 */
export interface CaseHook {
  /**
   * The hook, without its `_`.
   */
  hook: string;
  /**
   * What it receives, without ids, turns and reasons.
   */
  arguments?: JsonValue[];
  /**
   * What it returns.
   */
  result?: JsonValue;
  /**
   * In place of a result, why it fails.
   */
  error?: string | null;
}
/**
 * One run: what it is given, what answers its calls, and what it has to be like.
 */
export interface EvalCase {
  /**
   * Its name, in tables and baselines.
   */
  name: string;
  /**
   * The fields of the run's request besides the agent: `input`, `state`, `context` and others.
   */
  request?: {
    [k: string]: unknown;
  };
  /**
   * The messages that a conversation is sent, after each answer the next.
   */
  messages?: JsonValue[];
  /**
   * What answers its calls: of equal ones, the first use has the first answer.
   */
  answers?: CaseAnswer[];
  /**
   * What answers the hooks of its calls.
   */
  hooks?: CaseHook[];
  /**
   * The decisions on its calls, besides approvals.
   */
  decisions?: CaseDecision[];
  /**
   * What it has to be like.
   */
  expect?: Expectation;
}
/**
 * What a run of a case has to be like.
 */
export interface Expectation {
  /**
   * How it ends.
   */
  status?:
    | 'running'
    | 'awaiting_approval'
    | 'awaiting_message'
    | 'completed'
    | 'stopped'
    | 'budget_exceeded'
    | 'failed'
    | 'cancelled';
  /**
   * Its output.
   */
  output?: ExpectedOutput;
  /**
   * Its calls.
   */
  calls?: ExpectedCalls;
  /**
   * What its final state has at least, with equal values.
   */
  state?: {
    [k: string]: JsonValue;
  };
  /**
   * The tools for whose calls it asks, in any order, each as often as it does.
   */
  approvals?: string[] | null;
  /**
   * The most that it costs, by the endpoints' prices; an unknown cost is more.
   */
  maxCost?: number | null;
  /**
   * The most requests to the model.
   */
  maxTurns?: number | null;
  /**
   * What else decides, in Python.
   */
  evaluators?: NamedEvaluator[];
}
/**
 * A call of a tool, with the arguments that it has among others.
 */
export interface ExpectedCall {
  /**
   * The tool.
   */
  tool: string;
  /**
   * The arguments that it has at least, with equal values.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
}
/**
 * The calls of a run. A name is a call of that tool with any arguments.
 */
export interface ExpectedCalls {
  /**
   * These calls and no other, in any order.
   */
  exactly?: (string | ExpectedCall)[] | null;
  /**
   * These calls, among others.
   *
   * @maxItems 200
   */
  atLeast?: (string | ExpectedCall)[];
  /**
   * No such call.
   *
   * @maxItems 200
   */
  never?: (string | ExpectedCall)[];
  /**
   * These calls one after the other, with others between them.
   *
   * @maxItems 200
   */
  inOrder?: (string | ExpectedCall)[];
}
/**
 * The output of a run.
 */
export interface ExpectedOutput {
  /**
   * The output itself; null: any.
   */
  equals?: JsonValue;
  /**
   * Texts in it; in a structured output, in its JSON. Upper and lower case are equal.
   */
  contains?: string[];
  /**
   * A JSON Schema that it fits.
   */
  schema?: JsonSchema | boolean;
  /**
   * A rubric by which a model decides whether it is right.
   */
  judge?: string | null;
}
/**
 * An evaluator of pydantic-evals, which is run in the command's process if that is allowed.
 */
export interface NamedEvaluator {
  /**
   * Its class: `module:Class`, or `file.py:Class`.
   */
  evaluator: string;
  /**
   * What it is made with.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
}
/**
 * A file of `evals/`: cases for one agent.
 */
export interface SuiteOfCases {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The agent of the catalog that is tested, unless another is named.
   */
  agent: string;
  /**
   * How often each case is run.
   */
  repeat?: number;
  /**
   * The part of the runs of a case that have to pass.
   */
  passRate?: number;
  /**
   * The model that decides by rubrics (default: that of the agent).
   */
  judge?: ModelSettings | null;
  /**
   * The cases.
   *
   * @minItems 1
   * @maxItems 1000
   */
  cases: EvalCase[];
}
/**
 * A rule of a tool's list of approval rules, by which a call is pending.
 */
export interface AppliedRule {
  /**
   * The tool.
   */
  tool: string;
  /**
   * Its place in the list, from 1; 0: none fits.
   */
  number: number;
  /**
   * Its name, where it has one.
   */
  name?: string | null;
  /**
   * Which calls it is for, where that has words.
   */
  description?: string | null;
}
/**
 * A budget has reached the share of it that the agent's `onThreshold` has.
 */
export interface BudgetThresholdEntry {
  type?: 'budget_threshold';
  /**
   * The budget, such as `maxTokens`.
   */
  budget: string;
  /**
   * What is used of it.
   */
  used: number;
  /**
   * The budget's limit.
   */
  limit: number;
}
/**
 * The error of one call: its code, and a message for the model.
 */
export interface CallError {
  code: ErrorCode;
  message: string;
}
/**
 * A claim as the run keeps it; it ends at that time without an event.
 */
export interface Claimed {
  /**
   * Who looks at the call.
   */
  by: string;
  /**
   * Until when.
   */
  until: string;
}
/**
 * A call waits for a person. `reminder` counts how often it was asked again.
 */
export interface ConfirmationRequiredEntry {
  type?: 'confirmation_required';
  /**
   * The turn of the call.
   */
  turn: number;
  /**
   * The call.
   */
  callId: string;
  /**
   * How often it was asked again.
   */
  reminder?: number;
  /**
   * The groups that are asked from now on, too.
   */
  forwarded?: string[];
  /**
   * What is asked.
   */
  approval: PendingApproval;
}
/**
 * A value with a name, which calls read as `†<kind>.…`.
 */
export interface DataPart {
  /**
   * It is a value.
   */
  type?: 'data';
  /**
   * The name that calls read it by.
   */
  kind: string;
  /**
   * The value.
   */
  data: JsonValue;
  /**
   * The schema of the value.
   */
  schema?:
    | {
        [k: string]: unknown;
      }
    | boolean
    | null;
  /**
   * What it is, for the model.
   */
  description?: string | null;
  /**
   * Whose value it is, in a run with instances; unset, it is for all.
   */
  _instance?: string | null;
}
/**
 * A decision as the run keeps it.
 */
export interface Decided {
  /**
   * What was decided.
   */
  decision: 'approve' | 'deny' | 'edit' | 'respond' | 'happened' | 'did_not_happen' | 'give_up';
  /**
   * Who decided.
   */
  by?: string | null;
  /**
   * For which groups.
   */
  groups?: string[];
  /**
   * When.
   */
  at: string;
  /**
   * Why.
   */
  reason?: string | null;
  /**
   * Of the call as it was shown.
   */
  digest: string;
  /**
   * Whether it holds for every further call of the tool.
   */
  remember?: boolean;
  /**
   * Whether it was signed: `by`, `groups` and `onBehalfOf` are then those of a verified token.
   */
  signed?: boolean;
  /**
   * The people who were away, and whose substitute decided. Only where there are some.
   *
   * @maxItems 20
   */
  onBehalfOf?: string[];
}
/**
 * A document in PDF: its base64 data, or the address of one.
 */
export interface DocumentPart {
  /**
   * It is a document.
   */
  type?: 'document';
  /**
   * A PDF.
   */
  mediaType?: 'application/pdf';
  /**
   * The content in base64.
   */
  data?: string | null;
  /**
   * Its address.
   */
  url?: string | null;
  /**
   * The name of its file.
   */
  name?: string | null;
  /**
   * Its file in the store.
   */
  stored?: StoredFile | null;
}
/**
 * The run ended with a result.
 */
export interface DoneEntry {
  type?: 'done';
  /**
   * How it ended.
   */
  status: string;
  /**
   * The outcome.
   */
  output?: JsonValue;
  /**
   * Why it has no output, if its budget was used up.
   */
  reason?: string | null;
}
/**
 * The run failed or was cancelled.
 */
export interface ErrorEntry {
  type?: 'error';
  /**
   * What kind of end it is.
   */
  code: string;
  /**
   * What happened, and what to do.
   */
  message: string;
}
/**
 * The entries before this one are those of another run; this run begins here.
 */
export interface ForkedEntry {
  type?: 'forked';
  /**
   * The other run, by its workflow id.
   */
  forkedFrom: string;
  /**
   * Its turn after which this run begins; 0: before its first.
   */
  turn?: number;
}
/**
 * A picture: its base64 data with a media type, or the address of one.
 */
export interface ImagePart {
  /**
   * It is a picture.
   */
  type?: 'image';
  /**
   * Such as image/png.
   */
  mediaType?: string | null;
  /**
   * The content in base64.
   */
  data?: string | null;
  /**
   * Its address.
   */
  url?: string | null;
  /**
   * The name of its file.
   */
  name?: string | null;
  /**
   * Its file in the store.
   */
  stored?: StoredFile | null;
}
/**
 * A call has fetched knowledge: the result of its `tool_end`, which follows.
 */
export interface KnowledgeUsedEntry {
  type?: 'knowledge_used';
  /**
   * The turn of the call.
   */
  turn: number;
  /**
   * The call.
   */
  callId: string;
  /**
   * The name of the knowledge.
   */
  name: string;
  /**
   * What it is from: a `file`, a `url`, a `text` or an `activity`.
   */
  source: string;
}
/**
 * Something that a reader of the run should know, and no model reads.
 */
export interface NoticeEntry {
  type?: 'notice';
  /**
   * What it is.
   */
  text: string;
}
/**
 * A call that is pending approval, as people are shown it.
 *
 * `digest` is the SHA-256 of `{"arguments": …, "tool": …}` as JSON with sorted keys, no white
 * space, in UTF-8; for other kinds than `call`, `kind` and `round` (how often it was asked) stand
 * in it too, and so does `form`. `question` describes in a sentence what each decision does. The
 * calls of a plan wait together: its `tool` is `plan`, its `arguments` are `{"calls": …}`, and a
 * decision is on all.
 */
export interface PendingApproval {
  /**
   * What a decision names.
   */
  callId: string;
  /**
   * Why it waits: for leave, for a person's answer, as a plan for all of its calls, with an
   * unknown outcome, for a budget, or since the token of the run's principal has expired.
   */
  kind: 'call' | 'input' | 'reconcile' | 'plan' | 'budget' | 'principal_expired';
  /**
   * The tool.
   */
  tool: string;
  /**
   * Its name for people.
   */
  label: string;
  /**
   * Its arguments.
   */
  arguments: {
    [k: string]: unknown;
  };
  /**
   * Why the model makes the call.
   */
  reasoning?: string | null;
  /**
   * Whose data it reads and writes. Only in a run with instances.
   */
  instance?: string | null;
  /**
   * Of tool and arguments.
   */
  digest: string;
  /**
   * The `nonce` of a signed decision: SHA-256 of `[run id, call id, round]` as JSON,
   * with the run id of the execution that asks. The log does not have it.
   */
  nonce?: string;
  /**
   * Since when it waits.
   */
  requestedAt: string;
  /**
   * Until when it waits.
   */
  expiresAt: string;
  /**
   * The groups whose members may decide; none: anyone.
   */
  approvers?: string[];
  /**
   * How many people must approve.
   */
  quorum?: number;
  /**
   * What was decided so far.
   */
  decisions?: Decided[];
  /**
   * What each decision would do, in a sentence.
   */
  question?: string;
  /**
   * Whether only a signed decision counts. Only where it is so.
   */
  signed?: boolean;
  /**
   * The arguments that the model left out: defaults, and those of a hook. Only where there are
   * some; of a plan, each with its call.
   */
  filledIn?: string[];
  /**
   * What happens where no one decides: it is run, or the run fails. Only where it
   * is no denial.
   */
  onTimeout?: ('approve' | 'fail') | null;
  /**
   * The schema of the answer that an MCP server requires to continue the call. Only of such.
   */
  form?: {
    [k: string]: unknown;
  };
  /**
   * What an approval does, from the `effect` of the tool: `refund of €249.00`. Only where it has
   * one, and its values fit. The log does not have it.
   */
  effect?: string;
  /**
   * The one amount of money in its arguments: `1200.00 EUR`. The log does not have it.
   */
  amount?: string;
  /**
   * The start of each attempt whose outcome is unknown. The log does not have it.
   */
  attempts?: string[];
  /**
   * The approval rules that apply to it, of tools that have a list: of a call, the first that
   * fits, or each if that cannot be checked yet; of a plan, those of its calls.
   */
  rules?: AppliedRule[];
  /**
   * Who looks at it, until when; it may be past. The log does not have it.
   */
  claim?: Claimed | null;
  /**
   * The title of its run, by the `title` of the agent. The log does not have it.
   */
  runTitle?: string;
}
/**
 * A message for people, which no model reads.
 */
export interface RemarkEntry {
  type?: 'remark';
  /**
   * The author.
   */
  role?: 'system' | 'user' | 'assistant';
  /**
   * The content.
   */
  content: string | (TextPart | ImagePart | DocumentPart | DataPart)[];
}
/**
 * The run has this skill from now on.
 */
export interface SkillEntry {
  type?: 'skill';
  /**
   * The skill.
   */
  skill: string;
  /**
   * Who chose it: the run's request or a message; a rule, which is its `when`, or that there is
   * no other; or the model.
   */
  by: 'request' | 'rule' | 'model';
  /**
   * How sure the model is, from 0 to 1.
   */
  confidence?: number | null;
  /**
   * Why the model chose it.
   */
  reason?: string | null;
}
/**
 * The content of a file that is in the store, among the files of the run that has the message.
 *
 * A message cannot name another run's file: the run is no part of this.
 */
export interface StoredFile {
  /**
   * The SHA-256 of its bytes.
   */
  sha256: string;
  /**
   * The number of its bytes.
   */
  sizeBytes: number;
}
/**
 * A piece of text.
 */
export interface TextPart {
  /**
   * It is text.
   */
  type?: 'text';
  /**
   * The text; of a stored one, its beginning.
   */
  text: string;
  /**
   * The name of its file, which the model reads too.
   */
  name?: string | null;
  /**
   * Its file in the store, which the model reads in place of `text`.
   */
  stored?: StoredFile | null;
}
/**
 * The model made a call; `arguments` as they would be run, where they are valid.
 */
export interface ToolCallEntry {
  type?: 'tool_call';
  /**
   * The turn of the call.
   */
  turn: number;
  /**
   * The call.
   */
  callId: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * The tool's name for people.
   */
  label?: string | null;
  /**
   * What it is called with.
   */
  arguments?: JsonValue;
  /**
   * Why the model makes the call.
   */
  reasoning?: string | null;
  /**
   * The calls of its turn that it waits for, by their ids.
   */
  waitsFor?: string[];
  /**
   * Whose data it reads and writes, in a run with instances.
   */
  instance?: string | null;
}
/**
 * A call has its result. `value` is here only where the model is not shown all of it.
 */
export interface ToolEndEntry {
  type?: 'tool_end';
  /**
   * The turn of the call.
   */
  turn: number;
  /**
   * The call.
   */
  callId: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * Why it failed, if it did.
   */
  error?: CallError | null;
  /**
   * The whole result, where the model is not shown all of it.
   */
  value?: JsonValue;
  /**
   * What the tool returned for logs and screens.
   */
  details?: JsonValue;
}
/**
 * A call is started.
 */
export interface ToolStartEntry {
  type?: 'tool_start';
  /**
   * The turn of the call.
   */
  turn: number;
  /**
   * The call.
   */
  callId: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * What it is called with, where that was not known before.
   */
  arguments?: JsonValue;
  /**
   * The agent that it is delegated to: a run of its own, with the id `<run>.<call>`.
   */
  delegate?: string | null;
}
/**
 * A turn is over.
 */
export interface TurnEndEntry {
  type?: 'turn_end';
  /**
   * Its number, from 1.
   */
  turn: number;
  /**
   * What it used.
   */
  usage?: Usage;
  /**
   * Which model answered it, if the agent has more than one.
   */
  model?: string | null;
  /**
   * The version of genai-prices, if its list has the price of the model that answered.
   */
  genaiPrices?: string | null;
}
/**
 * A request to the model begins.
 */
export interface TurnStartEntry {
  type?: 'turn_start';
  /**
   * Its number, from 1.
   */
  turn: number;
}
/**
 * Tokens, and their price in the currency of the endpoint's price list. `None` is unknown.
 */
export interface Usage {
  /**
   * Of the requests.
   */
  inputTokens?: number | null;
  /**
   * Of the answers.
   */
  outputTokens?: number | null;
  /**
   * Of the requests, those that the provider had kept.
   */
  cachedTokens?: number | null;
  /**
   * By the endpoint's prices.
   */
  cost?: number | null;
  /**
   * Of the cost, where the prices state one and the same.
   */
  currency?: string | null;
}
export interface Event2 {
  n: number;
  at: string;
  type: string;
  result?: unknown;
}
/**
 * A provider of OpenID Connect, with which people sign in.
 */
export interface Oidc {
  /**
   * The provider, as it calls itself: `https`, or `http` on this machine.
   */
  issuer: string;
  /**
   * Accept a metadata document and tokens of the issuer that differ in the slash at its end.
   */
  ignoreIssuerSlash?: boolean;
  /**
   * As what it knows the inbox.
   */
  clientId: string;
  /**
   * The environment variable that holds the inbox's secret there; never the secret. Without it,
   * the inbox is a public client.
   */
  clientSecretEnv?: string | null;
  /**
   * What the provider is asked for; `openid` always.
   *
   * @maxItems 50
   */
  scopes?: string[];
  /**
   * What of the id token is someone's name in every record. It is to be one that no one can
   * choose for themselves, and no one else has.
   */
  nameClaim?: string;
  /**
   * What of the id token lists their groups.
   */
  groupsClaim?: string;
  /**
   * For which groups of approvers the members of each of the provider's groups decide; those of
   * no other count (default: each under its own name).
   */
  groups?: {
    [k: string]: string[];
  } | null;
  /**
   * Who may come in: members of one of these groups of approvers (default: everyone that the
   * provider signs in).
   */
  allow?: string[] | null;
}
/**
 * The name and the looks of the inbox, on every page.
 */
export interface Organization {
  /**
   * The name beside the logo, and in the title of each page.
   */
  name: string;
  /**
   * A PNG, SVG or WebP file of at most 100 KB, seen from the folder of this one.
   */
  logo?: string | null;
  /**
   * The color of the main buttons, as `#1d5bd8`; their text is white or black.
   */
  color?: string | null;
}
/**
 * The rights of some people on some runs; a person has those of all rules that match.
 */
export interface PermissionRule {
  /**
   * The groups of approvers that have these rights (default: everyone who may sign in).
   */
  groups?: string[] | null;
  /**
   * The agents whose runs it is about (default: every run, single calls too).
   */
  agents?: string[] | null;
  /**
   * The principals of the runs; `own` is the person's own name (default: every run).
   */
  principals?: string[] | null;
  /**
   * The rights: to read the run and its log, to decide, to cancel it, to send it messages.
   *
   * @minItems 1
   */
  may: ('read' | 'decide' | 'cancel' | 'message')[];
}
/**
 * What programs may do that start runs, beside naming an agent or a tool of the worker.
 */
export interface Programs {
  /**
   * Define an agent or a tool in a request: its own rules can run calls without an approval.
   */
  definitions?: boolean;
  /**
   * Name the principal that a run acts for, and what they may do (default: it acts for its
   * caller).
   */
  principals?: boolean;
}
/**
 * A proxy in front of the inbox, which signs people in and sends their names.
 */
export interface Proxy {
  /**
   * The header that holds someone's name.
   */
  userHeader: string;
  /**
   * The header that holds their groups of approvers, with commas between them.
   */
  groupsHeader?: string | null;
  /**
   * Where the proxy is: the headers count from these addresses alone.
   *
   * @minItems 1
   * @maxItems 100
   */
  networks: string[];
}
/**
 * A Slack app; the workers post its messages (`tokenEnv` in notify.yaml).
 */
export interface SlackSettings {
  /**
   * The environment variable that holds the app's signing secret.
   */
  signingSecretEnv: string;
  /**
   * The environment variable that holds its bot token.
   */
  tokenEnv: string;
  /**
   * The id of the workspace.
   */
  team: string;
  /**
   * The id of the app.
   */
  app: string;
  /**
   * The people by their Slack ids; others cannot decide there.
   */
  users: {
    [k: string]: SlackUser;
  };
  /**
   * The address of Slack's Web API.
   */
  api?: string;
}
/**
 * A person who decides in Slack.
 */
export interface SlackUser {
  /**
   * Their name in every record.
   */
  name: string;
  /**
   * The groups of approvers that they decide for.
   *
   * @maxItems 100
   */
  groups?: string[];
}
/**
 * `inbox.yaml`: without `oidc` and `proxy`, people sign in by a link.
 */
export interface Inbox {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * Where people find the inbox: the https address of the proxy in front of it, and a path.
   */
  url?: string | null;
  /**
   * Where Temporal's own UI is, to which each run is linked.
   */
  temporalUi?: string | null;
  /**
   * Whose inbox it is.
   */
  organization?: Organization | null;
  /**
   * People sign in with a provider of OpenID Connect.
   */
  oidc?: Oidc | null;
  /**
   * A proxy signs people in.
   */
  proxy?: Proxy | null;
  /**
   * The keys that programs' tokens are checked with: a file such as `keys.yaml`, seen from the
   * folder of this one, or an address.
   */
  tokens?: string | null;
  /**
   * Who may read, decide, cancel and send messages (default: everyone everything).
   */
  permissions?: PermissionRule[] | null;
  /**
   * When the claim of an approver on a pending call ends by itself.
   */
  claimFor?: string;
  /**
   * The task queue of the workers that keep when people are away.
   */
  taskQueue?: string;
  /**
   * A Slack app, in which people decide by buttons.
   */
  slack?: SlackSettings | null;
  /**
   * What programs may do.
   */
  programs?: Programs;
  /**
   * Who may read `/openapi.json`: who is signed in or has a token, or everyone.
   */
  openapi?: 'signed-in' | 'public';
}
/**
 * Public keys, and the claims that a token signed by one of them must have.
 */
export interface KeySet {
  /**
   * A file with the keys: a JWK set in JSON, or PEM. It is read again whenever it changes.
   */
  file?: string | null;
  /**
   * Where a JWK set is served: `https`, or `http` on this machine.
   */
  url?: string | null;
  /**
   * The `iss` that a token must have (default: any, or none).
   */
  issuer?: string | null;
  /**
   * The `aud` that a token must have (default: `holdfast:decision`, `holdfast:principal` or
   * `holdfast:inbox`, by what it is for). A set that has its own is `for` one use.
   */
  audience?: string | null;
  /**
   * The only signer with these keys; or, with `{sub}`, the names of the people of this issuer:
   * `{sub}@partner` (default: the `sub` of the token; of another issuer than the first, `SUB @
   * ISSUER`).
   */
  subject?: string | null;
  /**
   * The claim that names a principal's team, for budgets of teams (default: none does).
   */
  team?: string | null;
  /**
   * The groups that decisions may be signed for with these keys (default: any).
   */
  groups?: string[] | null;
  /**
   * What its tokens are good for: signed decisions, principals of runs, programs at the inbox.
   *
   * @minItems 1
   */
  for?: ('decisions' | 'principals' | 'inbox')[];
  /**
   * What programs with its tokens may do at the inbox and at `holdfast mcp`, as far as the
   * inbox's own `permissions` allow it (default: all of it).
   */
  may?: ('start' | 'read' | 'message' | 'decide' | 'cancel')[] | null;
  /**
   * What makes the sender of a token a person, who decides in a trusted client of `holdfast mcp`
   * (default: a token without a provider's mark of a program is a person's).
   */
  person?: PersonClaim | null;
  /**
   * By how much the clocks of this worker and of the signer may differ.
   */
  leeway?: string;
  /**
   * How old keys from a `url` may get before they are fetched again.
   */
  refresh?: string;
  /**
   * How long the last good keys are used while they cannot be read again.
   */
  keep?: string;
}
/**
 * The claim that the token of a person has, and that of a program does not.
 */
export interface PersonClaim {
  /**
   * The claim that a person's token has.
   */
  claim: string;
  /**
   * Its value, or one of its list (default: any).
   */
  value?: string | null;
}
/**
 * `keys.yaml`: key sets by name.
 */
export interface KeySets {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string;
  [k: string]: KeySet | string | undefined;
}
/**
 * The least that each approval policy requires.
 */
export interface ApprovalLimits {
  /**
   * Which calls wait for a person, without exception: those with side effects, or all.
   */
  require?: ('side_effects' | 'always') | null;
  /**
   * The longest that a call waits.
   */
  timeout?: string | null;
  /**
   * What happens at least to a call that no one decided on.
   */
  onTimeout?: ('deny' | 'fail') | null;
  /**
   * The least number of people who must approve.
   */
  quorum?: number | null;
  /**
   * `principal`: the run's own principal may not decide.
   */
  notBy?: 'principal' | null;
  /**
   * Only a signed decision counts.
   */
  signed?: true | null;
}
/**
 * Bounds that tighten what tools and agents state, and loosen nothing.
 */
export interface Limits {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The longest that one attempt of a tool's activity may take.
   */
  toolTimeout?: string | null;
  /**
   * The most calls of a turn that run at a time.
   */
  concurrency?: number | null;
  /**
   * The most that a run may use, before people extend it.
   */
  budget?: Budget;
  /**
   * What the policy of each tool and agent requires at least.
   */
  approval?: ApprovalLimits;
}
/**
 * A message to a run, and when it is to be read. It is the result of no call.
 */
export interface Message {
  /**
   * The author.
   */
  role?: 'system' | 'user' | 'assistant';
  /**
   * The content: a text, or a list of parts.
   */
  content: string | (TextPart | ImagePart | DocumentPart | DataPart)[];
  /**
   * `steer`: before the next turn; `followUp`: when the run would end.
   */
  delivery?: 'steer' | 'followUp';
  /**
   * `people`: it is in the log at once, as a remark, and no model ever reads it.
   */
  audience?: 'model' | 'people';
  /**
   * In a conversation, the agent's skill from this message on.
   */
  skill?: string | null;
}
/**
 * The absence of a person, as they have set it; without `away`, they are back.
 */
export interface Absence {
  /**
   * Who is away, by the name that they sign in with.
   */
  person: string;
  /**
   * The groups that they decide for.
   *
   * @maxItems 100
   */
  groups?: string[];
  /**
   * When, and the substitute.
   */
  away?: Away | null;
}
/**
 * A time in which a person is away, and their substitute.
 */
export interface Away {
  /**
   * From when.
   */
  from: string;
  /**
   * Until when.
   */
  until: string;
  /**
   * The substitute, by the name that they sign in with.
   */
  to: string;
}
/**
 * A message of a Slack app about a question, which later news of it update.
 */
export interface PostedMessage {
  /**
   * The channel's id.
   */
  channel: string;
  /**
   * The message's id in it.
   */
  ts: string;
}
/**
 * One notification about one question.
 *
 * It is sent twice where it is not known whether it arrived: `id` is the same then.
 */
export interface News {
  /**
   * Of this news; who has had one with it already may drop it.
   */
  id: string;
  /**
   * Of the question: the same for all notifications about it.
   */
  about: string;
  /**
   * What happened: it was asked, asked again, no one decided in time, or someone did; or a budget
   * is used to its threshold, and there is nothing to decide.
   */
  kind: 'asked' | 'reminder' | 'expired' | 'decided' | 'threshold';
  /**
   * When.
   */
  at: string;
  /**
   * How often it has been asked again.
   */
  reminder?: number;
  /**
   * The run.
   */
  workflowId: string;
  /**
   * Whose run it is; none: it is a single call.
   */
  agent?: string | null;
  /**
   * On whose behalf it acts.
   */
  principal?: string | null;
  /**
   * The call, as it is shown; what is long is cut.
   */
  waiting: PendingApproval;
  /**
   * Its arguments as the inbox shows them, by title: `["Amount", "€249.00"]`; an object of a
   * list, an item of a loop and a call of a plan are one each. Only with the content `full`.
   */
  shown?: unknown[][];
  /**
   * The groups that it is forwarded to, where that is the news.
   */
  forwarded?: string[];
  /**
   * The people of its groups who are away now; their substitutes may be no approvers.
   */
  absences?: Absence[];
  /**
   * What becomes of it where no one decides: it is denied, the run fails, it is run, it
   * is given up, the run ends.
   */
  lapse: 'deny' | 'fail' | 'approve' | 'give_up' | 'end';
  /**
   * The decision that ended the wait, where one did.
   */
  decided?: Decided | null;
  /**
   * Where it is decided, or where its outcome is shown.
   */
  link?: string | null;
  /**
   * The message about it that a Slack app has posted; only in news for its channel.
   */
  posted?: PostedMessage | null;
}
/**
 * One channel to notify people, and the events that it sends.
 */
export interface Channel {
  /**
   * A program, over HTTP.
   */
  webhook?: Webhook | null;
  /**
   * People, by mail.
   */
  mail?: Mail | null;
  /**
   * People, in a channel of Slack or of what is compatible with it.
   */
  slack?: Slack | null;
  /**
   * Send only the approvals of these groups, or without groups (default: all).
   *
   * @maxItems 100
   */
  groups?: string[];
  /**
   * What is sent: that a call is pending, that it still is, that no one decided in time, that
   * someone did, that a budget has come to the agent's `onThreshold`.
   *
   * @minItems 1
   */
  on?: ('asked' | 'reminder' | 'expired' | 'decided' | 'threshold')[];
  /**
   * How much is sent: `full` with the arguments and the model's reasons, `brief` without,
   * `none` nothing but that there is something, and where.
   */
  content?: 'full' | 'brief' | 'none';
}
/**
 * The person in whose name a link decides.
 */
export interface LinkPerson {
  /**
   * Their name in every record.
   */
  by: string;
  /**
   * The groups of approvers that they decide for.
   *
   * @maxItems 100
   */
  groups?: string[];
}
/**
 * A mail server, and who gets the messages.
 */
export interface Mail {
  /**
   * The server.
   */
  host: string;
  /**
   * Its port (default: 587, with `tls: tls` 465, with `tls: none` 25).
   */
  port?: number | null;
  /**
   * How the connection is secured; `none` only with a server on this machine.
   */
  tls?: 'starttls' | 'tls' | 'none';
  /**
   * Who logs in (default: no one).
   */
  username?: string | null;
  /**
   * The environment variable that holds the password.
   */
  passwordEnv?: string | null;
  /**
   * The sender of the messages.
   */
  from: string;
  /**
   * Who gets every message of the channel.
   *
   * @maxItems 50
   */
  to?: string[];
  /**
   * Further recipients of the approvals of this group; those without a group reach all.
   */
  toGroups?: {
    /**
     * @maxItems 50
     */
    [k: string]: string[];
  };
  /**
   * Send each address a link of its own, to a page that decides in its name, for its groups in
   * `toGroups`, without signing in.
   */
  links?: boolean;
}
/**
 * A channel of Slack: an incoming webhook, also of a compatible server, or a Slack app.
 */
export interface Slack {
  /**
   * The environment variable that holds a webhook's address: anyone who has it may post there.
   */
  urlEnv?: string | null;
  /**
   * The environment variable that holds the bot token of an app. With `content: full`, people
   * approve and deny by buttons; each message is updated when its request is decided or expires.
   */
  tokenEnv?: string | null;
  /**
   * With `tokenEnv`: the id of the channel that the app posts to.
   */
  channel?: string | null;
  /**
   * With `tokenEnv`: the address of Slack's Web API.
   */
  api?: string;
}
/**
 * A program that is notified over HTTP, signed as Standard Webhooks has it.
 */
export interface Webhook {
  /**
   * Where it listens.
   */
  url?: string | null;
  /**
   * The environment variable that holds where it listens, where that is a secret.
   */
  urlEnv?: string | null;
  /**
   * The environment variable that holds the secret it knows us by: `whsec_…`; while it is
   * changed, the new one and the old one, with a space between. Only Teams does without.
   */
  secretEnv?: string | null;
  /**
   * What it receives: the news as JSON, or an Adaptive Card for a workflow of Microsoft Teams.
   */
  format?: 'json' | 'teams';
  /**
   * Link to a page that decides in this person's name, without signing in.
   */
  links?: LinkPerson | null;
}
/**
 * `notify.yaml`: where the inbox is, and the channels by name.
 */
export interface Notifiers {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * Where people reach the inbox: what links begin with.
   */
  inbox: string;
  /**
   * The channels, each under a name of your own.
   */
  channels: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^[A-Za-z][A-Za-z0-9_.-]{0,127}$".
     */
    [k: string]: Channel;
  };
}
/**
 * Which part of a log is wanted: what stands after number `after`, at most `limit` entries.
 */
export interface PageRequest {
  /**
   * The number of the last entry that is known already.
   */
  after?: number;
  /**
   * The most entries.
   */
  limit?: number;
}
/**
 * One call of a plan.
 *
 * Where a plan is edited, `id` is enough for a call that stays as it is. Only `arguments` and
 * `bound` may be others than those that are shown.
 */
export interface PlannedCall {
  /**
   * The call.
   */
  id: string;
  /**
   * The tool.
   */
  tool?: string | null;
  /**
   * Its name for people.
   */
  label?: string | null;
  /**
   * Its arguments; a reference to a value that is not there yet is shown as it is.
   */
  arguments?: {
    [k: string]: JsonValue;
  } | null;
  /**
   * Why the model makes the call.
   */
  reasoning?: string | null;
  /**
   * The calls that have to end before.
   */
  waitsFor?: string[] | null;
  /**
   * Where its result is written, and behind `||` its error.
   */
  writes?: string | null;
  /**
   * Whose data it reads and writes, in a run with instances.
   */
  instance?: string | null;
  /**
   * The agent that the call is delegated to, where it is; left out of what is shown where none
   * does.
   */
  delegate?: string | null;
  /**
   * In an edit, of a call with references to values that are not there yet: a schema of its
   * arguments. The plan's approval holds for arguments that fit it.
   */
  bound?: JsonSchema | null;
}
/**
 * The `arguments` of a pending plan, and those with which it is edited.
 *
 * A call that is left out then is struck out of the plan.
 */
export interface Plan {
  /**
   * The calls, in the order in which the model made them.
   */
  calls: PlannedCall[];
}
/**
 * What `decide` answers: whether the call is decided, and how many decisions it still needs.
 */
export interface Receipt {
  /**
   * The call.
   */
  callId: string;
  /**
   * The decision that was taken down.
   */
  decision: 'approve' | 'deny' | 'edit' | 'respond' | 'happened' | 'did_not_happen' | 'give_up';
  /**
   * Whether the call is decided now.
   */
  decided: boolean;
  /**
   * How many more must approve.
   */
  missing?: number;
}
/**
 * What an activity may return in place of a bare result, under the key `_result`.
 */
export interface ResultEnvelope {
  /**
   * What the model sees: text, JSON, or a list of content parts.
   */
  content?: JsonValue;
  /**
   * For logs and screens; the model never sees it.
   */
  details?: JsonValue;
  /**
   * Ask the run to stop after this turn.
   */
  terminate?: boolean;
}
/**
 * An agent as a person writes it, in JSON, YAML or the front matter of a Markdown file.
 */
export interface AgentDefinition {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The agent's name; unset, it is the file's.
   */
  name?: string | null;
  /**
   * What it is for.
   */
  description?: string | null;
  /**
   * What people read as the title of its runs: a text in which `{property}` is a value of the
   * input, `Refund of order {order}`. Before a message without properties, its subject follows.
   */
  title?: string | null;
  /**
   * The system prompt; in a Markdown file, the text below the front matter.
   */
  instructions?: string;
  /**
   * Which model is asked: its settings, or `endpoint:name`; of a list, the next one where one
   * fails, for the rest of the run. None with `calls`, or where each skill is an activity.
   */
  model?: string | ModelSettings | (string | ModelSettings)[] | null;
  /**
   * Constant calls in place of a model, each with its tool in `_tool` and its arguments beside
   * it: they refer to the input, and to what others write.
   *
   * @minItems 1
   * @maxItems 100
   */
  calls?: {
    /**
     * The tool.
     */
    _tool: string;
    [k: string]: JsonValue | string;
  }[];
  /**
   * The output, with references; unset, it is the model's answer, or the last constant call's
   * result.
   */
  answer?: JsonValue;
  /**
   * How tools are called: `native` is the provider's own way, `composed` one structured answer
   * with all calls and the output.
   */
  calling?: 'native' | 'composed';
  /**
   * Names of the catalog, and tools that are written out here.
   */
  tools?: (string | ToolDefinition)[];
  /**
   * Named parts, of which a run has one.
   */
  skills?: SkillDefinition[];
  /**
   * In a conversation, whether the model may change to another skill with `choose_skill`.
   */
  changeSkill?: boolean;
  /**
   * What can be fetched when the model asks for it.
   */
  knowledge?: Knowledge[];
  /**
   * Give it `memory_read`, `memory_write` and `memory_search`: what it keeps outlives the run.
   */
  memory?: boolean;
  /**
   * The schema of a run's input.
   */
  input?: JsonSchema | boolean | null;
  /**
   * The schema of the output; unset, it is text.
   */
  output?: JsonSchema | boolean | null;
  /**
   * The schema of a run's state.
   */
  state?: JsonSchema | boolean | null;
  /**
   * Whether the model must call a tool in its first turn, and which.
   */
  toolChoice?: ('auto' | 'none' | 'required') | ForcedTool;
  /**
   * How much a run may use.
   */
  budget?: Budget;
  /**
   * What becomes of a run that has used up a budget.
   */
  onLimit?: {
    [k: string]: 'finalize' | 'fail' | 'ask';
  };
  /**
   * The share of a budget at which people are notified, once.
   */
  onThreshold?: {
    [k: string]: number;
  };
  /**
   * How many calls of a turn run at a time.
   */
  concurrency?: number;
  /**
   * When calls wait for a person, unless their tool sets it.
   */
  approval?: AgentApproval;
  /**
   * When calls are run: `eager` is as the model makes them, `lazy` once a person has
   * approved all calls of an answer.
   */
  plan?: 'eager' | 'lazy';
  /**
   * The most that a run may hold of scopes; unset, all that its principal has.
   */
  principalScopes?: string[] | null;
  /**
   * Require the model to state with each call why it makes it.
   */
  reasoningForCall?: boolean;
  /**
   * A hook for all its calls: see a tool's `_prepare`.
   */
  _prepare?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook for all its calls: see a tool's `_repair`.
   */
  _repair?:
    | (
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | RepairAgent
      )
    | null;
  /**
   * A hook for all its calls: see a tool's `_before`.
   */
  _before?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook for all its calls: see a tool's `_after`.
   */
  _after?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(request)` changes what the model is shown in one request, or stops the run.
   */
  _beforeModel?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(failure)` answers for a model that failed, or chooses what to do about it.
   */
  _onModelError?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(answer)` lets the output pass, replaces it or sends it back, or stops the run.
   */
  _afterAnswer?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
}
/**
 * A message from before the run: a text or data, a model's calls, or the result of one.
 */
export interface ContextMessage {
  /**
   * The author.
   */
  role?: 'system' | 'user' | 'assistant' | 'tool';
  /**
   * The content: a text, or a list of parts.
   */
  content?: string | (TextPart | ImagePart | DocumentPart | DataPart)[];
  /**
   * The calls of an `assistant`: their results are the next messages, in the same order.
   */
  calls?: EarlierCall[];
  /**
   * The call that a message of the role `tool` is the result of.
   */
  callId?: string | null;
  /**
   * Whether that call failed.
   */
  isError?: boolean;
}
/**
 * A run that stays open for further messages, until `close` or for `idle_timeout`.
 */
export interface Conversation {
  /**
   * How long it waits for the next message, and then ends.
   */
  idleTimeout?: string | null;
}
/**
 * A call that was made before the run, as its transcript has it.
 */
export interface EarlierCall {
  /**
   * What its result names it by.
   */
  id: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * What it was called with.
   */
  arguments?: {
    [k: string]: JsonValue;
  };
}
/**
 * The run that another one begins with, and its turn after which it begins.
 */
export interface Fork {
  /**
   * The run, by its workflow id.
   */
  run: string;
  /**
   * The number of the turn; 0: before the first. Unset, after the last turn that has ended.
   */
  turn?: number | null;
}
/**
 * The input of `AgentWorkflow`.
 */
export interface RunRequest {
  /**
   * The name of an agent of the worker, or one that is written out here.
   */
  agent: string | AgentDefinition;
  /**
   * The task: a text, an object, or a list of parts, with files.
   */
  input?:
    | string
    | (TextPart | ImagePart | DocumentPart | DataPart)[]
    | {
        [k: string]: JsonValue;
      }
    | null;
  /**
   * Messages from before the run, such as the transcript of another one. The entries of a run's
   * log, as the query `context` returns them, are read as its messages.
   */
  context?: ContextMessage[];
  /**
   * The state that the run begins with.
   */
  state?: {
    [k: string]: JsonValue;
  } | null;
  /**
   * The agent's skill that it uses; unset, a rule or the model chooses.
   */
  skill?: string | null;
  /**
   * In place of the agent's own.
   */
  toolChoice?: ('auto' | 'none' | 'required') | ForcedTool | null;
  /**
   * Bounds tighter than the agent's.
   */
  budget?: Budget;
  /**
   * On whose behalf the run acts.
   */
  principal?: (Principal | PrincipalToken) | null;
  /**
   * `deny`: whatever would wait for a person is denied.
   */
  approvals?: 'ask' | 'deny';
  /**
   * Stay open for further messages.
   */
  conversation?: boolean | Conversation;
  /**
   * Begin with the log and the state of another run, after one of its turns.
   */
  fork?: Fork | null;
}
/**
 * What one of a run's models used.
 */
export interface ModelUsage {
  /**
   * The endpoint and the model's name: `openai/gpt-5`.
   */
  model: string;
  /**
   * How many turns it answered.
   */
  turns?: number;
  /**
   * What it used, for summaries and for calls that it answered too.
   */
  usage?: Usage;
}
/**
 * A message that no model has read, for people; `text` is the beginning of its content.
 */
export interface QueuedMessage {
  /**
   * Its number among the messages to the run, from 1.
   */
  number: number;
  /**
   * The author.
   */
  role: 'system' | 'user' | 'assistant';
  /**
   * When it is read.
   */
  delivery: 'steer' | 'followUp';
  /**
   * The beginning of its content.
   */
  text: string;
}
/**
 * The result of a run that ended by itself, or of a single call.
 *
 * Its `turns` are 0, its `output` is the result of the call.
 */
export interface RunResult {
  /**
   * How it ended.
   */
  status: 'completed' | 'stopped' | 'budget_exceeded';
  /**
   * Why it has no output, if its budget was used up.
   */
  reason?: string | null;
  /**
   * The outcome.
   */
  output?: JsonValue;
  /**
   * The state that it ended with: in a run with instances, what is for all of them.
   */
  state?: JsonValue;
  /**
   * What each instance has in its own state: the keys that were written in it, as it sees them.
   * Only in a run with instances.
   */
  instances?: {
    [k: string]: JsonValue;
  };
  /**
   * How often the model was asked.
   */
  turns: number;
  /**
   * How many calls there were, those refused included.
   */
  calls: number;
  /**
   * What it used.
   */
  usage: Usage;
  /**
   * What each model used, without delegates'. Only of an agent with more than one model.
   */
  models?: ModelUsage[];
  /**
   * The messages that no model has read, the first 200. Only where there are some.
   */
  undelivered?: QueuedMessage[];
}
/**
 * When runs of an agent start, and with what; the name of the file is the schedule's id.
 */
export interface Schedule {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string | null;
  /**
   * The agent of the catalog.
   */
  agent: string;
  /**
   * The task of each run: a text, or an object.
   */
  input:
    | string
    | {
        [k: string]: JsonValue;
      };
  /**
   * When runs start: minute, hour, day of the month, month, day of the week.
   */
  cron?: string | null;
  /**
   * The time between two starts, counted from 1970 in UTC.
   */
  interval?: string | null;
  /**
   * The time zone of `cron`, such as Europe/Berlin (default: UTC).
   */
  timeZone?: string | null;
  /**
   * What becomes of a start while the run before it is open (default: Skip). Required if runs can
   * wait for a person.
   */
  overlap?:
    ('Skip' | 'BufferOne' | 'BufferAll' | 'CancelOther' | 'TerminateOther' | 'AllowAll') | null;
  /**
   * How late a start may be made up for, after an outage of the server; 10s or more.
   */
  catchupWindow?: string;
  /**
   * `deny`: whatever would wait for a person is denied.
   */
  approvals?: 'deny' | null;
  /**
   * On whose behalf the runs act; never a token, which is for one run.
   */
  principal?: (Principal | PrincipalToken) | null;
  /**
   * Names and values in the memo of each run.
   */
  labels?: {
    [k: string]: string;
  };
}
/**
 * The worker as a client of an authorization server (OAuth 2.1, client credentials).
 */
export interface ClientAuth {
  /**
   * The authorization server; no other receives the secret.
   */
  issuer: string;
  /**
   * The worker's name there.
   */
  clientId: string;
  /**
   * The environment variable that holds its secret.
   */
  clientSecretEnv?: string | null;
  /**
   * The file, by its full path, that holds its private key in PEM, in place of a secret.
   */
  privateKeyFile?: string | null;
}
/**
 * One MCP server: where it is or how it is started, and how far its hints are trusted.
 */
export interface Server {
  /**
   * Where it is (Streamable HTTP), such as https://shop.example/mcp.
   */
  url?: string | null;
  /**
   * Headers of every request: of each, the environment variable that holds its value.
   */
  headersEnv?: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$".
     */
    [k: string]: string;
  };
  /**
   * The worker's own identity, whose tokens the requests carry.
   */
  auth?: ClientAuth | null;
  /**
   * The folder, by its full path, with a token for each principal, which their calls carry.
   */
  principalTokens?: string | null;
  /**
   * The program that each worker starts, and uses by its standard input and output.
   */
  command?: string | null;
  /**
   * The program's arguments, none of them secret.
   */
  args?: string[];
  /**
   * The variables of the worker's environment that the program receives.
   */
  envFrom?: string[];
  /**
   * The revision of the protocol: that of 2026, an older one (`legacy`), or what it has.
   */
  protocol?: 'auto' | 'legacy' | '2026-07-28';
  /**
   * How long one call may take (default: 30s).
   */
  timeout?: string | null;
  /**
   * Believe its hints that a tool has no side effects, or may be called twice.
   */
  trusted?: boolean;
  /**
   * By the name of a tool: meta-properties, in place of its hints and our defaults.
   */
  overrides?: {
    [k: string]: {
      [k: string]: unknown;
    };
  };
}
/**
 * `servers.yaml`: MCP servers by name.
 */
export interface MCPServers {
  /**
   * What an editor checks the file with; not read.
   */
  $schema?: string;
  /**
   * This interface was referenced by `MCPServers`'s JSON-Schema definition
   * via the `patternProperty` "^[A-Za-z][A-Za-z0-9_-]{0,39}$".
   */
  [k: string]: Server | string | undefined;
}
/**
 * A tool of a run, as people's screens are shown it beside a pending call.
 */
export interface ShownTool {
  /**
   * Its name.
   */
  name: string;
  /**
   * Its name for people.
   */
  label?: string | null;
  /**
   * What it does.
   */
  description?: string;
  /**
   * The schema of its arguments.
   */
  parameters: JsonSchema;
  /**
   * The schema of its result.
   */
  output?: JsonSchema | boolean | null;
  /**
   * Whether it changes the world.
   */
  sideEffects?: boolean;
  /**
   * Whether running a call twice is as good as once.
   */
  idempotent?: boolean;
  /**
   * The agent whose run executes its calls, if there is one.
   */
  delegate?: string | null;
  /**
   * When its calls need an approval, who approves, how long they wait, and what happens when no
   * one decides: with its agent's defaults, and those of all tools.
   */
  approval: ApprovalPolicy;
  /**
   * The policies of its rules, in their order; `approval` is then for calls that none fits.
   */
  approvalRules?: ApprovalRule[];
}
/**
 * A tool as a person writes it: a JSON Schema (draft 2020-12) with meta-properties.
 *
 * Besides the meta-properties below, every keyword of JSON Schema is allowed.
 */
export interface Tool {
  /**
   * The dialect: https://json-schema.org/draft/2020-12/schema.
   */
  $schema?: string;
  /**
   * The schema's own address.
   */
  $id?: string;
  /**
   * A name by which the schema is referred to.
   */
  $anchor?: string;
  /**
   * A name that a schema around this one may take over.
   */
  $dynamicAnchor?: string;
  /**
   * The schema at another place of this one, such as `#/$defs/money`.
   */
  $ref?: string;
  /**
   * The schema that has taken over a dynamic anchor.
   */
  $dynamicRef?: string;
  /**
   * The vocabularies of a dialect.
   */
  $vocabulary?: {};
  /**
   * A note to the readers of the schema.
   */
  $comment?: string;
  /**
   * Schemas that this one refers to, by name.
   */
  $defs?: {
    [k: string]: JsonSchema;
  };
  /**
   * What `$defs` was called before.
   */
  definitions?: {
    [k: string]: JsonSchema;
  };
  /**
   * What `dependentSchemas` was called before.
   */
  dependencies?: {};
  /**
   * A short name for people.
   */
  title?: string | null;
  /**
   * What the tool does, for the model.
   */
  description?: string | null;
  /**
   * The value where none is given.
   */
  default?: {
    [k: string]: unknown;
  };
  /**
   * Values that fit.
   */
  examples?: unknown[];
  /**
   * It should not be used any more.
   */
  deprecated?: boolean;
  /**
   * It is not written to.
   */
  readOnly?: boolean;
  /**
   * It is not read back.
   */
  writeOnly?: boolean;
  /**
   * Arguments are an object.
   */
  type?: 'object';
  /**
   * The values that fit.
   */
  enum?: unknown[];
  /**
   * The one value that fits.
   */
  const?: {
    [k: string]: unknown;
  };
  /**
   * What the text is, such as `date-time` or `email`.
   */
  format?: string;
  /**
   * How the text encodes bytes, such as `base64`.
   */
  contentEncoding?: string;
  /**
   * The media type of what the text holds.
   */
  contentMediaType?: string;
  /**
   * The schema of what the text holds.
   */
  contentSchema?: JsonSchema;
  /**
   * A regular expression for the text.
   */
  pattern?: string;
  /**
   * The fewest characters.
   */
  minLength?: number;
  /**
   * The most characters.
   */
  maxLength?: number;
  /**
   * The least number.
   */
  minimum?: number;
  /**
   * The greatest number.
   */
  maximum?: number;
  /**
   * The number is greater than this.
   */
  exclusiveMinimum?: number;
  /**
   * The number is less than this.
   */
  exclusiveMaximum?: number;
  /**
   * The number is a multiple of this.
   */
  multipleOf?: number;
  /**
   * The schema of each item.
   */
  items?: JsonSchema;
  /**
   * The schemas of the first items, one by one.
   *
   * @minItems 1
   */
  prefixItems?: JsonSchema[];
  /**
   * The schema of at least one item.
   */
  contains?: JsonSchema;
  /**
   * How many items fit `contains` at least.
   */
  minContains?: number;
  /**
   * How many items fit `contains` at most.
   */
  maxContains?: number;
  /**
   * The fewest items.
   */
  minItems?: number;
  /**
   * The most items.
   */
  maxItems?: number;
  /**
   * No item comes twice.
   */
  uniqueItems?: boolean;
  /**
   * The schema of the items that no other keyword is about.
   */
  unevaluatedItems?: JsonSchema;
  /**
   * The parameters, by name; meta-properties may stand here as schemas.
   */
  properties?: {
    /**
     * The tool's name; unset, it is the file's.
     */
    _tool?: {
      /**
       * The tool's name; unset, it is the file's.
       */
      const: string | null;
    };
    /**
     * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
     */
    _parameters?: {
      /**
       * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
       */
      const: JsonSchema | null;
    };
    /**
     * The schema of the result.
     */
    _output?: JsonSchema | boolean | null;
    /**
     * Where the result is written, such as `†state.refund`.
     */
    _outputPath?: {
      /**
       * Where the result is written, such as `†state.refund`.
       */
      const?: string | null;
    };
    /**
     * How the result is written (default: set).
     */
    _outputMethod?: {
      /**
       * How the result is written (default: set).
       */
      const?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
    };
    /**
     * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
     */
    _scopes?: {
      /**
       * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
       */
      const?: string[] | null;
    };
    /**
     * Whose data its calls read and write, in a run with instances; unset, each call names it.
     */
    _instance?: {
      /**
       * Whose data its calls read and write, in a run with instances; unset, each call names it.
       */
      const?: string | null;
    };
    /**
     * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
     */
    _delegate?: {
      /**
       * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
       */
      const: string | null;
    };
    /**
     * Only a person can answer its calls: each is pending with the form of its `_output`.
     */
    _person?: {
      /**
       * Only a person can answer its calls: each is pending with the form of its `_output`.
       */
      const: boolean;
    };
    /**
     * The activity that runs it: its name, or more; unset, one of the tool's name. Where
     * there is none, the model itself answers.
     */
    _activity?: {
      /**
       * The activity that runs it: its name, or more; unset, one of the tool's name. Where
       * there is none, the model itself answers.
       */
      const: string | ActivityBinding | null;
    };
    /**
     * It has side effects: unless its approval is set otherwise, a person decides.
     */
    _sideEffects?: {
      /**
       * It has side effects: unless its approval is set otherwise, a person decides.
       */
      const: boolean;
    };
    /**
     * Running a call twice is as good as once (default: not `_sideEffects`).
     */
    _idempotent?: {
      /**
       * Running a call twice is as good as once (default: not `_sideEffects`).
       */
      const: boolean | null;
    };
    /**
     * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
     */
    _approval?: {
      /**
       * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
       */
      const: ApprovalPolicy | ApprovalRule[] | null;
    };
    /**
     * The scopes that the run's principal must hold.
     */
    _requires?: {
      /**
       * The scopes that the run's principal must hold.
       */
      const: string[];
    };
    /**
     * A turn that holds a call of it carries its calls out one at a time.
     */
    _sequential?: {
      /**
       * A turn that holds a call of it carries its calls out one at a time.
       */
      const: boolean;
    };
    /**
     * A call may name a list in `_each`: it runs for each item, and its result is a list.
     */
    _each?: {
      /**
       * A call may name a list in `_each`: it runs for each item, and its result is a list.
       */
      const: boolean;
    };
    /**
     * How often it may be called, after which tools, how large, and when it must be.
     */
    _limits?: {
      /**
       * How often it may be called, after which tools, how large, and when it must be.
       */
      const: CallLimits | null;
    };
    /**
     * Its results come from outside: the model is shown them as data, not as instructions.
     */
    _untrusted?: {
      /**
       * Its results come from outside: the model is shown them as data, not as instructions.
       */
      const: boolean;
    };
    /**
     * What of a result the model reads.
     */
    _show?: {
      /**
       * What of a result the model reads.
       */
      const: ('full' | 'preview' | 'none') | null;
    };
    /**
     * A name for people's screens.
     */
    _label?: {
      /**
       * A name for people's screens.
       */
      const: string | null;
    };
    /**
     * A hook: `(arguments)` gives other arguments, before they are checked.
     */
    _prepare?: {
      /**
       * A hook: `(arguments)` gives other arguments, before they are checked.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    /**
     * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
     * whose output they are.
     */
    _repair?: {
      /**
       * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
       * whose output they are.
       */
      const:
        | (
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | RepairAgent
          )
        | null;
    };
    /**
     * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
     */
    _before?: {
      /**
       * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    /**
     * A hook: `(call, result)` replaces parts of the result, or stops the run.
     */
    _after?: {
      /**
       * A hook: `(call, result)` replaces parts of the result, or stops the run.
       */
      const:
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | null;
    };
    [k: string]:
      | JsonSchema
      | boolean
      | {
          /**
           * The tool's name; unset, it is the file's.
           */
          const: string | null;
        }
      | {
          /**
           * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
           */
          const: JsonSchema | null;
        }
      | null
      | {
          /**
           * Where the result is written, such as `†state.refund`.
           */
          const?: string | null;
        }
      | {
          /**
           * How the result is written (default: set).
           */
          const?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
        }
      | {
          /**
           * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
           */
          const?: string[] | null;
        }
      | {
          /**
           * Whose data its calls read and write, in a run with instances; unset, each call names it.
           */
          const?: string | null;
        }
      | {
          /**
           * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
           */
          const: string | null;
        }
      | {
          /**
           * Only a person can answer its calls: each is pending with the form of its `_output`.
           */
          const: boolean;
        }
      | {
          /**
           * The activity that runs it: its name, or more; unset, one of the tool's name. Where
           * there is none, the model itself answers.
           */
          const: string | ActivityBinding | null;
        }
      | {
          /**
           * It has side effects: unless its approval is set otherwise, a person decides.
           */
          const: boolean;
        }
      | {
          /**
           * Running a call twice is as good as once (default: not `_sideEffects`).
           */
          const: boolean | null;
        }
      | {
          /**
           * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
           */
          const: ApprovalPolicy | ApprovalRule[] | null;
        }
      | {
          /**
           * The scopes that the run's principal must hold.
           */
          const: string[];
        }
      | {
          /**
           * A turn that holds a call of it carries its calls out one at a time.
           */
          const: boolean;
        }
      | {
          /**
           * A call may name a list in `_each`: it runs for each item, and its result is a list.
           */
          const: boolean;
        }
      | {
          /**
           * How often it may be called, after which tools, how large, and when it must be.
           */
          const: CallLimits | null;
        }
      | {
          /**
           * Its results come from outside: the model is shown them as data, not as instructions.
           */
          const: boolean;
        }
      | {
          /**
           * What of a result the model reads.
           */
          const: ('full' | 'preview' | 'none') | null;
        }
      | {
          /**
           * A name for people's screens.
           */
          const: string | null;
        }
      | {
          /**
           * A hook: `(arguments)` gives other arguments, before they are checked.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | {
          /**
           * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
           * whose output they are.
           */
          const:
            | (
                | ((string | ActivityBinding) & {
                    input?: never;
                    local?: never;
                  })
                | RepairAgent
              )
            | null;
        }
      | {
          /**
           * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | {
          /**
           * A hook: `(call, result)` replaces parts of the result, or stops the run.
           */
          const:
            | ((string | ActivityBinding) & {
                input?: never;
                local?: never;
              })
            | null;
        }
      | undefined;
  };
  /**
   * The parameters that must be given.
   */
  required?: string[];
  /**
   * The schema of the other properties; `false`: none.
   */
  additionalProperties?: JsonSchema;
  /**
   * Schemas of properties by a regular expression.
   */
  patternProperties?: {
    [k: string]: JsonSchema;
  };
  /**
   * The schema of the names.
   */
  propertyNames?: JsonSchema;
  /**
   * The fewest properties.
   */
  minProperties?: number;
  /**
   * The most properties.
   */
  maxProperties?: number;
  /**
   * Which properties must be there if one is.
   */
  dependentRequired?: {
    [k: string]: string[];
  };
  /**
   * Which schemas must fit if a property is there.
   */
  dependentSchemas?: {
    [k: string]: JsonSchema;
  };
  /**
   * The schema of the properties that no other is about.
   */
  unevaluatedProperties?: JsonSchema;
  /**
   * Schemas that all fit.
   *
   * @minItems 1
   */
  allOf?: JsonSchema[];
  /**
   * Schemas of which one or more fit.
   *
   * @minItems 1
   */
  anyOf?: JsonSchema[];
  /**
   * Schemas of which exactly one fits.
   *
   * @minItems 1
   */
  oneOf?: JsonSchema[];
  /**
   * A schema that does not fit.
   */
  not?: JsonSchema;
  /**
   * Where this fits, `then` must; elsewhere, `else`.
   */
  if?: JsonSchema;
  /**
   * The schema where `if` fits.
   */
  then?: JsonSchema;
  /**
   * The schema where `if` does not fit.
   */
  else?: JsonSchema;
  /**
   * The tool's name; unset, it is the file's.
   */
  _tool?: string | null;
  /**
   * The schema of the arguments, instead of `properties`: here, a name may begin with `_`.
   */
  _parameters?: JsonSchema | null;
  /**
   * The schema of the result.
   */
  _output?: JsonSchema | boolean | null;
  /**
   * Where the result is written, such as `†state.refund`.
   */
  _outputPath?: string | null;
  /**
   * How the result is written (default: set).
   */
  _outputMethod?: ('set' | 'merge' | 'assign' | 'push' | 'concat') | null;
  /**
   * What of the context the activity is given: `input`, `state`, `context`, a kind of data.
   */
  _scopes?: string[] | null;
  /**
   * Whose data its calls read and write, in a run with instances; unset, each call names it.
   */
  _instance?: string | null;
  /**
   * The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools.
   */
  _delegate?: string | null;
  /**
   * Only a person can answer its calls: each is pending with the form of its `_output`.
   */
  _person?: boolean;
  /**
   * The activity that runs it: its name, or more; unset, one of the tool's name. Where
   * there is none, the model itself answers.
   */
  _activity?: string | ActivityBinding | null;
  /**
   * It has side effects: unless its approval is set otherwise, a person decides.
   */
  _sideEffects?: boolean;
  /**
   * Running a call twice is as good as once (default: not `_sideEffects`).
   */
  _idempotent?: boolean | null;
  /**
   * When a call waits for a person; of a list of rules, the first whose `when` fits the call.
   */
  _approval?: ApprovalPolicy | ApprovalRule[] | null;
  /**
   * The scopes that the run's principal must hold.
   */
  _requires?: string[];
  /**
   * A turn that holds a call of it carries its calls out one at a time.
   */
  _sequential?: boolean;
  /**
   * A call may name a list in `_each`: it runs for each item, and its result is a list.
   */
  _each?: boolean;
  /**
   * How often it may be called, after which tools, how large, and when it must be.
   */
  _limits?: CallLimits | null;
  /**
   * Its results come from outside: the model is shown them as data, not as instructions.
   */
  _untrusted?: boolean;
  /**
   * What of a result the model reads.
   */
  _show?: ('full' | 'preview' | 'none') | null;
  /**
   * A name for people's screens.
   */
  _label?: string | null;
  /**
   * A hook: `(arguments)` gives other arguments, before they are checked.
   */
  _prepare?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
   * whose output they are.
   */
  _repair?:
    | (
        | ((string | ActivityBinding) & {
            input?: never;
            local?: never;
          })
        | RepairAgent
      )
    | null;
  /**
   * A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run.
   */
  _before?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  /**
   * A hook: `(call, result)` replaces parts of the result, or stops the run.
   */
  _after?:
    | ((string | ActivityBinding) & {
        input?: never;
        local?: never;
      })
    | null;
  [k: string]: unknown;
}
