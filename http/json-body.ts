import { isUtf8 } from "node:buffer";
import { trimBlanks } from "../bus/blanks.ts";
import { SvcError } from "../bus/errors.ts";
import { JsonFault, parseStrictJson } from "../bus/strict-json.ts";

/**
 * Returns the parsed body. Refuses with unsupported_media_type unless it is plain application/json, and with invalid_json for lenient or
 * ambiguous JSON.
 */
export function readJsonBody(
  body: Buffer,
  headers: { readonly "content-type"?: string; readonly "content-encoding"?: string },
  membersMax: number,
): unknown {
  checkMediaType(headers["content-type"]);
  // A proxy that inspects the body would decode it and see other content.
  const coding = headers["content-encoding"] ?? "identity";
  if (coding !== "identity")
    throw new SvcError("unsupported_media_type", {
      message: `The body has the Content-Encoding ${shown(coding)}, which is not supported. Send it uncompressed, without that header.`,
    });
  if (!isUtf8(body)) throw new SvcError("invalid_json", { detail: "the body is not UTF-8" });
  try {
    return parseStrictJson(body.toString("utf8"), { membersMax });
  } catch (error) {
    if (error instanceof JsonFault)
      throw new SvcError("invalid_json", { detail: `the JSON of the body ${error.message}${error.where}` });
    throw error;
  }
}

/** Returns a header value, cut for the error message. */
function shown(value: string): string {
  return value.length > 64 ? `${value.slice(0, 64)}…` : value;
}

function checkMediaType(contentType: string | undefined): void {
  if (contentType === "application/json") return;
  const [type = "", ...parameters] = (contentType ?? "").split(";").map((part) => trimBlanks(part).toLowerCase());
  if (type !== "application/json")
    throw new SvcError("unsupported_media_type", {
      message: `The body has ${type === "" ? "no Content-Type" : `the Content-Type ${shown(type)}`}. Send it with Content-Type: application/json.`,
    });
  for (const parameter of parameters) {
    if (!parameter.startsWith("charset=")) continue;
    const charset = parameter.slice("charset=".length).replaceAll('"', "");
    if (charset !== "utf-8" && charset !== "utf8")
      throw new SvcError("invalid_json", { detail: "the charset is not UTF-8" });
  }
}
