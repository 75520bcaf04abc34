import type { SvcError } from "../../bus/errors.ts";
import { neverAgain, openAiError } from "../../bus/frames/openai-error.ts";
import { jsonText, type Reply, refusalHeaders } from "./reply.ts";

const errorTypes: Readonly<Record<number, string>> = {
  401: "auth_error",
  403: "auth_error",
  404: "invalid_request_error",
  409: "conflict_error",
  502: "model_gateway_error",
};

/** A hint for clients of this protocol, which often send a provider's model name. */
const modelHelp = " The model of a request is the name of a manifest, which says what model answers.";

/**
 * Returns a refusal in the form of the OpenAI protocol. Refusals of the middleware keep their own bodies, as the specification prints them.
 */
export function openAiRefusal(error: SvcError, requestId: string): Reply {
  const { code, details } = error;
  const headers = refusalHeaders(error);
  if (code === "unauthorized") return jsonText(JSON.stringify({ error: code, reason: details.reason }), 401, headers);
  if (code === "payload_too_large") return jsonText('{"error":"payload_too_large"}', 413);
  if (code === "rate_limited") return jsonText('{"error":"rate_limited"}', 429, headers);
  // A validation error has status 400 on this entry point, and names its field.
  const fields = Array.isArray(details.detail) ? (details.detail as Problem[]) : [];
  const isValidation = code === "invalid_request";
  const status = isValidation ? 400 : error.status;
  const isUnsupported = code === "unsupported_parameter";
  const param = isUnsupported ? (details.subject ?? null) : fields[0] === undefined ? null : placeOf(fields[0]) || null;
  const message =
    fields.length > 0
      ? fields.map(told).join("; ")
      : code === "internal_error"
        ? `internal error (request ${requestId})`
        : typeof details.detail === "string"
          ? details.detail
          : error.sentence === null
            ? error.message
            : `${error.message}: ${error.sentence}${code === "unknown_manifest" ? modelHelp : ""}`;
  const type = errorTypes[status] ?? (status >= 500 ? "server_error" : "invalid_request_error");
  return jsonText(openAiError(message, type, wireCode(error), param), status, {
    ...headers,
    ...(!mayRepeat(error) && neverAgain),
  });
}

/** Returns the code in the terms of this protocol, which names the parameter in a field of its own. */
function wireCode({ code, message, details }: SvcError): string {
  if (code === "invalid_thread_id" && details.subject === undefined) return "invalid_user";
  if (code === "unknown_manifest") return "model_not_found";
  if (code === "manifest_pin_moved") return "conflict";
  return code === "unsupported_parameter" || code === "blocked_by_hook" ? code : message;
}

/** True if the request had no effect and the refusal is temporary, so that clients may retry automatically. */
function mayRepeat({ code, status }: SvcError): boolean {
  return status === 429 || code === "mailbox_full" || code === "shutting_down";
}

interface Problem {
  readonly loc: readonly unknown[];
  readonly msg: string;
}

/** Returns a problem with its field. If the message starts with the field's last name already, the name is not repeated. */
function told(problem: Problem): string {
  const place = placeOf(problem);
  if (place === "") return problem.msg;
  const said = problem.msg.replace(/^messages: /, "");
  const [name = "", ...words] = said.split(" ");
  return place === name || place.endsWith(`.${name}`) ? [place, ...words].join(" ") : `${place}: ${said}`;
}

/** Returns the path of the problem's field; "" for the whole body. */
function placeOf({ loc }: Problem): string {
  return loc.slice(1).join(".");
}
