import { SvcError } from "../bus/errors.ts";
import type { RequestTool, ResponseFormat, ToolChoice, TurnOptions } from "../bus/protocol/turn-options.ts";

// Options of a turn in requests of the OpenAI protocol. The two routes nest a tool's function differently: a completion has it in the
// member `function`, a response in the tool itself.

/** Max tools of one request, as at OpenAI. */
const toolsMax = 128;
/** Max characters of all tools as JSON: they are part of every prompt, and stored with the run. */
const toolsCharsMax = 262_144;
/** Max characters of an answer's schema, which is compiled for each request. */
const schemaCharsMax = 16_384;
const stopsMax = 4;
const stopCharsMax = 256;
const namePattern = /^[A-Za-z0-9_-]{1,64}$/;

type Body = Readonly<Record<string, unknown>>;

/**
 * Returns the options of POST /v1/chat/completions; undefined if there are none. Refuses with invalid_request and unsupported_parameter.
 */
export function completionOptions(body: Body): TurnOptions | undefined {
  return optionsOf(body, "function", formatOf(body.response_format, "response_format", "json_schema"));
}

/** Returns the options of POST /v1/responses. Refuses like `completionOptions`. */
export function responseOptions(body: Body): TurnOptions | undefined {
  const { format } = (isObject(body.text) ? body.text : {}) as { readonly format?: unknown };
  return optionsOf(body, null, formatOf(format, "text.format", null));
}

/** `member` names the field of a tool that holds the function; null if the tool itself does. */
function optionsOf(
  body: Body,
  member: "function" | null,
  response_format: ResponseFormat | null,
): TurnOptions | undefined {
  const tools = isNothing(body.tools) ? [] : toolsOf(body.tools, member);
  const tool_choice = isNothing(body.tool_choice) ? null : choiceOf(body.tool_choice, member);
  const parallel_tool_calls = isNothing(body.parallel_tool_calls) ? null : (body.parallel_tool_calls as boolean);
  if (parallel_tool_calls !== null && typeof parallel_tool_calls !== "boolean")
    throw invalid(["parallel_tool_calls"], "must be true or false");
  const stop = isNothing(body.stop) ? [] : stopOf(body.stop);
  // Defaults are not sent to the provider, because some providers refuse these parameters.
  const isPlain = tool_choice === null || tool_choice === "auto";
  const saysNothing = tools.length === 0 && isPlain && parallel_tool_calls !== false;
  if (saysNothing && response_format === null && stop.length === 0) return undefined;
  return { tools, tool_choice, parallel_tool_calls, response_format, stop };
}

/** `field` is the path of the format. `member` names the field that holds its schema; null if the format itself does. */
function formatOf(format: unknown, field: string, member: "json_schema" | null): ResponseFormat | null {
  if (isNothing(format)) return null;
  const path = field.split(".");
  if (!isObject(format)) throw invalid(path, "must be an object");
  if (format.type === "text") return null;
  if (format.type === "json_object") return { type: "json_object" };
  if (format.type !== "json_schema") throw new SvcError("unsupported_parameter", { subject: field });
  const described = member === null ? format : format[member];
  const inside = member === null ? path : [...path, member];
  if (!isObject(described)) throw invalid(inside, "must be an object");
  const { name, schema, strict } = described;
  if (typeof name !== "string" || !namePattern.test(name))
    throw invalid([...inside, "name"], "must be 1 to 64 letters, digits, - and _");
  if (!isObject(schema)) throw invalid([...inside, "schema"], "must be a JSON Schema, an object");
  if (JSON.stringify(schema).length > schemaCharsMax)
    throw invalid([...inside, "schema"], `has more than ${schemaCharsMax} characters of JSON`);
  if (!isNothing(strict) && typeof strict !== "boolean") throw invalid([...inside, "strict"], "must be true or false");
  return { type: "json_schema", name, schema, strict: (strict as boolean | null | undefined) ?? null };
}

function stopOf(stop: unknown): string[] {
  const texts = Array.isArray(stop) ? stop : [stop];
  const isStop = (text: unknown) => typeof text === "string" && text !== "" && text.length <= stopCharsMax;
  if (texts.length > stopsMax || !texts.every(isStop))
    throw invalid(["stop"], `must be up to ${stopsMax} texts of 1 to ${stopCharsMax} characters`);
  return texts as string[];
}

function toolsOf(tools: unknown, member: "function" | null): RequestTool[] {
  if (!Array.isArray(tools)) throw invalid(["tools"], "must be a list");
  if (tools.length > toolsMax) throw invalid(["tools"], `has more than ${toolsMax} tools`);
  const names = new Set<string>();
  const taken = tools.map((tool, at): RequestTool => {
    const path = ["tools", at] as const;
    if (!isObject(tool)) throw invalid(path, "must be an object");
    if (tool.type !== "function") throw new SvcError("unsupported_parameter", { subject: `tools.${at}.type` });
    const described = member === null ? tool : tool[member];
    const inside = member === null ? path : ([...path, member] as const);
    if (!isObject(described)) throw invalid(inside, "must be an object");
    const { name, description, parameters, strict } = described;
    if (typeof name !== "string" || !namePattern.test(name))
      throw invalid([...inside, "name"], "must be 1 to 64 letters, digits, - and _");
    if (names.has(name)) throw invalid([...inside, "name"], "is the name of two tools");
    names.add(name);
    if (!isNothing(description) && typeof description !== "string")
      throw invalid([...inside, "description"], "must be a string");
    if (!isNothing(parameters) && !isObject(parameters))
      throw invalid([...inside, "parameters"], "must be a JSON Schema, an object");
    if (isObject(parameters) && parameters.type !== undefined && parameters.type !== "object")
      throw invalid([...inside, "parameters", "type"], 'must be "object"');
    if (!isNothing(strict) && typeof strict !== "boolean")
      throw invalid([...inside, "strict"], "must be true or false");
    return {
      name,
      description: (description as string | null | undefined) ?? "",
      parameters: (parameters as Body | null | undefined) ?? { type: "object", properties: {} },
      strict: (strict as boolean | null | undefined) ?? null,
    };
  });
  if (JSON.stringify(taken).length > toolsCharsMax)
    throw invalid(["tools"], `has more than ${toolsCharsMax} characters of JSON`);
  return taken;
}

function choiceOf(choice: unknown, member: "function" | null): ToolChoice {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  if (!isObject(choice)) throw invalid(["tool_choice"], "must be auto, none, required, or name a function");
  // Lists of allowed tools, and OpenAI's own tools, are not supported.
  if (choice.type !== "function") throw new SvcError("unsupported_parameter", { subject: "tool_choice" });
  const named = member === null ? choice : choice[member];
  if (!isObject(named) || typeof named.name !== "string") throw invalid(["tool_choice"], "must name a function");
  return { name: named.name };
}

/** True if a field is absent or empty: many clients send empty fields. */
export function isNothing(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

function isObject(value: unknown): value is Body {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(path: readonly (string | number)[], msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", ...path], msg, type: "value_error" }] });
}
