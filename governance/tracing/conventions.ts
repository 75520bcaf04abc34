// The names of spans and attributes. They follow the semantic conventions of OpenTelemetry for HTTP and generative AI, in this version.
// Attributes of svc itself begin with `svc.`.

/** The version of the semantic conventions. */
const conventionsVersion = "1.38.0";
/** The address of that version, which collectors read. */
export const schemaUrl = `https://opentelemetry.io/schemas/${conventionsVersion}`;
/** The instrumentation scope of every span. */
export const scopeName = "svc";

/** The kinds of spans, with their numbers in the API of OpenTelemetry. */
export const spanKinds = { internal: 0, server: 1, client: 2, producer: 3 } as const;
/** The kind of a span. */
export type SpanKind = keyof typeof spanKinds;

/** The names of spans, with their subject. */
export const spanNames = {
  request: (method: string, route: string) => `${method} ${route}`,
  turn: (manifest: string) => `invoke_agent ${manifest}`,
  model: (model: string) => `chat ${model}`,
  tool: (tool: string) => `execute_tool ${tool}`,
  wait: (kind: string) => `wait ${kind}`,
  store: (work: string) => `store ${work}`,
  webhook: (endpoint: string) => `webhook ${endpoint}`,
} as const;

/** The names of attributes. */
export const attributeNames = {
  method: "http.request.method",
  route: "http.route",
  status: "http.response.status_code",
  errorType: "error.type",
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  agent: "gen_ai.agent.name",
  conversation: "gen_ai.conversation.id",
  requestModel: "gen_ai.request.model",
  temperature: "gen_ai.request.temperature",
  maxTokens: "gen_ai.request.max_tokens",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  finishReasons: "gen_ai.response.finish_reasons",
  tool: "gen_ai.tool.name",
  toolCall: "gen_ai.tool.call.id",
  toolArguments: "gen_ai.tool.call.arguments",
  toolResult: "gen_ai.tool.call.result",
  inputMessages: "gen_ai.input.messages",
  outputMessages: "gen_ai.output.messages",
  user: "user.id",
  tenant: "svc.tenant.id",
  requestId: "svc.request.id",
  run: "svc.run.id_digest",
  entryPoint: "svc.entry_point",
  resumed: "svc.run.resumed",
  stopReason: "svc.stop_reason",
  modelRoute: "svc.model.route",
  purpose: "svc.model.purpose",
  tries: "svc.model.tries",
  firstTokenMs: "svc.model.first_token_ms",
  estimated: "svc.usage.estimated",
  cost: "svc.cost_usd",
  waitKind: "svc.wait.kind",
  waitOutcome: "svc.wait.outcome",
  statements: "svc.store.statements",
  attempt: "svc.webhook.attempt",
} as const;
