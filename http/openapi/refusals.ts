import {
  codeName,
  type ErrorCode,
  type ErrorDetails,
  errorEntry,
  type PluginErrorCode,
  SvcError,
} from "../../bus/errors.ts";
import { type Reply, refusal } from "../exchange/reply.ts";
import type { Route } from "../route.ts";

// Refusals in the API reference. The example of an error code is the answer that the route itself builds for it. The reference therefore
// always agrees with the server.

type Json = Record<string, unknown>;

const text = { type: "string" };

/** Schemas of the bodies of refusals, by their names in the reference. */
export const refusalSchemas = {
  Refusal: {
    ...closed(
      {
        error: { ...text, description: "The code; for some codes with a colon and the subject." },
        detail: {},
        message: { ...text, description: "A sentence for people, which may suggest the right value." },
      },
      "`detail` is the code again, or its details.",
    ),
    required: ["error", "detail"],
  },
  InvalidRequest: closed(
    {
      error: { enum: ["invalid_request", "invalid_manifest"] },
      detail: {
        type: "array",
        items: closed(
          {
            loc: {
              type: "array",
              items: { type: ["string", "integer"] },
              description: "Path of the field, from the outside in.",
            },
            msg: { ...text, description: "A sentence for people." },
            type: { ...text, description: "A word for programs." },
          },
          "One invalid field.",
        ),
      },
    },
    "Every invalid field.",
  ),
  Unauthorized: closed(
    {
      error: { const: "unauthorized" },
      reason: { enum: ["missing_credentials", "invalid_api_key", "invalid_token", "invalid_consumer_secret"] },
    },
    "The caller is not authenticated.",
  ),
  MissingScopes: closed({ detail: text }, "The scopes that the caller lacks."),
  BareRefusal: closed(
    { error: { enum: ["payload_too_large", "rate_limited"] } },
    "An error before the request was read.",
  ),
  SkillRefusal: {
    type: "object",
    description:
      "A skill that is not valid, or not to be published: its faults or reasons are fields next to the code.",
    required: ["error", "detail"],
    properties: { error: { enum: ["invalid_bundle", "publish_blocked"] }, detail: text, message: text },
    additionalProperties: true,
  },
  SignInRefusal: {
    ...closed(
      {
        error: text,
        message: { ...text, description: "A sentence for people." },
        interval: { type: "integer", description: "Seconds until the next poll or start." },
        tenants: { type: "array", items: text, description: "The tenants that admit the account." },
        github_login: { ...text, description: "The account, once it is known." },
      },
      "A sign-in that was refused.",
    ),
    required: ["error", "message"],
  },
  ChangedFile: closed(
    {
      error: { const: "workspace_changed" },
      detail: { const: "workspace_changed" },
      sha256: {
        type: ["string", "null"],
        description: "Of the current file; null if there is none, or if it is large.",
      },
      bytes: { type: ["integer", "null"] },
    },
    "The file is not the expected version.",
  ),
  OpenAiRefusal: closed(
    {
      error: closed(
        { message: text, type: text, param: { type: ["string", "null"] }, code: { type: ["string", "null"] } },
        "",
      ),
    },
    "An error in the form of the OpenAI protocol.",
  ),
  JsonRpcRefusal: closed(
    {
      jsonrpc: { const: "2.0" },
      id: { type: ["string", "number", "null"] },
      error: {
        type: "object",
        required: ["code", "message"],
        properties: { code: { type: "integer" }, message: text, data: {} },
        additionalProperties: false,
      },
    },
    "An error in the form of JSON-RPC.",
  ),
} as const;

type FormName = keyof typeof refusalSchemas;

/** Details for the examples of codes whose answer shows details. */
const details: Readonly<Partial<Record<ErrorCode, ErrorDetails>>> = {
  unauthorized: { reason: "missing_credentials" },
  rate_limited: { retryAfterSeconds: 1 },
  dependency_unavailable: { retryAfterSeconds: 2 },
  issuer_unavailable: { retryAfterSeconds: 30 },
  authorization_pending: { detail: { interval: 5 }, retryAfterSeconds: 5 },
  slow_down: { detail: { interval: 10 }, retryAfterSeconds: 10 },
  tenant_ambiguous: { detail: { tenants: ["acme", "globex"], github_login: "octocat" } },
  invalid_request: {
    detail: [
      {
        loc: ["body", "manifst"],
        msg: "manifst is not a field of this request. Did you mean manifest? There are manifest, messages.",
        type: "extra_forbidden",
      },
    ],
  },
  invalid_manifest: {
    detail: [{ loc: ["spec", "tools", 0], msg: "no tool of this name is registered", type: "unresolved" }],
  },
  run_in_progress: { subject: "0b8a1c2d3e4f5a6b7c8d9e0f1a2b3c4d" },
  unknown_manifest: { subject: "helper" },
  unknown_prompt: { subject: "summarize" },
  empty_prompt: { subject: "summarize" },
  unknown_style: { subject: "terse" },
  too_many_commands: { subject: "16" },
  model_not_allowlisted: { subject: "gpt-4.1" },
  model_not_configured: { subject: "openai" },
  unresolved_secret: { subject: "OPENAI_KEY" },
  unsupported_parameter: { subject: "tools" },
  workspace_changed: { detail: { sha256: "0".repeat(64), bytes: 0 } },
  unknown_version: { detail: "Unknown canary version: helper@7" },
};
const exampleRequestId = "7f3c2b1a09184756a5b4c3d2e1f00918";

/** Returns the responses for refusals by status, without the `taken` statuses, which the route uses for successful answers. */
export function refusalResponses(route: Route, taken: readonly number[]): Record<string, Json> {
  const responses = new Map<number, Refusals>();
  for (const { code, error, inTheFormOf } of refusalsOf(route)) {
    const reply = inTheFormOf(error, exampleRequestId);
    if (reply.kind !== "json")
      throw new Error(`${route.method} ${route.path} refuses ${error.code} with something other than JSON`);
    if (taken.includes(reply.status)) continue;
    const refusals = responses.get(reply.status) ?? {
      codes: new Set(),
      examples: {},
      forms: new Set(),
      headers: new Set(),
    };
    responses.set(reply.status, refusals);
    add(refusals, code, reply);
  }
  const byStatus = [...responses].sort(([left], [right]) => left - right);
  return Object.fromEntries(byStatus.map(([status, refusals]) => [status, responseOf(refusals)]));
}

type AnyCode = ErrorCode | PluginErrorCode;

interface PossibleRefusal {
  readonly code: AnyCode;
  readonly error: SvcError;
  readonly inTheFormOf: Route["refusal"];
}

/** Returns all refusals that a request of this route may get: in svc's own form until it is admitted, then in the route's form. */
function refusalsOf(route: Route): readonly PossibleRefusal[] {
  const { access } = route;
  const admission: ErrorCode[] = [
    "malformed_request",
    "invalid_header",
    "headers_too_large",
    "host_not_allowed",
    "origin_not_allowed",
    "payload_too_large",
  ];
  if (route.params) admission.push("invalid_path");
  if (!route.unlimited) admission.push("rate_limited");
  if (access !== "public") admission.push("unauthorized", "issuer_unavailable", "shutting_down");
  if (access !== "public" && access !== "authenticated") admission.push("missing_scopes");

  const handling: AnyCode[] = [...route.fails, "internal_error"];
  if (route.params || route.query || route.body) handling.push("invalid_request");
  if (route.body) handling.push("request_timeout", "invalid_json", "unsupported_media_type");

  const scopes = typeof access === "string" ? ["chat"] : access;
  return [
    ...admission.map((code) => ({ code, error: example(code, scopes), inTheFormOf: refusal })),
    ...handling.map((code) => ({ code, error: example(code, ["tickets:read"]), inTheFormOf: route.refusal })),
  ];
}

function example(code: AnyCode, scopes: readonly string[]): SvcError {
  if (typeof code !== "string") return new SvcError(code);
  const lacking = { detail: `missing scopes: ${scopes.join(" ")}` };
  return new SvcError(code, code === "missing_scopes" ? lacking : (details[code] ?? {}));
}

interface Refusals {
  readonly codes: Set<AnyCode>;
  readonly examples: Record<string, Json>;
  readonly forms: Set<FormName>;
  /** Headers of at least one refusal, in lower case. */
  readonly headers: Set<string>;
}

function add(refusals: Refusals, code: AnyCode, reply: Extract<Reply, { kind: "json" }>): void {
  const value: unknown = JSON.parse(reply.body);
  const form = formOf(value as Json);
  refusals.codes.add(code);
  // A code that occurs in two forms gets an example of each.
  const name = codeName(code);
  refusals.examples[name in refusals.examples ? `${name}.${form}` : name] = { summary: errorEntry(code).help, value };
  refusals.forms.add(form);
  for (const name of Object.keys(reply.headers ?? {})) refusals.headers.add(name);
}

function responseOf({ codes, examples, forms, headers }: Refusals): Json {
  const schemas = [...forms].map((name) => ({ $ref: `#/components/schemas/${name}` }));
  return {
    description: [...codes].map((code) => `\`${codeName(code)}\`: ${errorEntry(code).help}`).join("\n\n"),
    headers: {
      "x-request-id": { $ref: "#/components/headers/RequestId" },
      ...(headers.has("retry-after") && { "retry-after": { $ref: "#/components/headers/RetryAfter" } }),
      ...(headers.has("www-authenticate") && { "www-authenticate": { $ref: "#/components/headers/WwwAuthenticate" } }),
    },
    content: {
      "application/json": { schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas }, examples },
    },
  };
}

function formOf(body: Json): FormName {
  if ("jsonrpc" in body) return "JsonRpcRefusal";
  if (typeof body.error === "object") return "OpenAiRefusal";
  if ("reason" in body) return "Unauthorized";
  if (!("error" in body)) return "MissingScopes";
  if (!("detail" in body)) return "message" in body ? "SignInRefusal" : "BareRefusal";
  if (body.error === "invalid_bundle" || body.error === "publish_blocked") return "SkillRefusal";
  if ("sha256" in body) return "ChangedFile";
  return Array.isArray(body.detail) ? "InvalidRequest" : "Refusal";
}

/** Returns the schema of an object with exactly these properties. */
function closed(properties: Json, description: string): Json {
  return { type: "object", description, required: Object.keys(properties), properties, additionalProperties: false };
}
