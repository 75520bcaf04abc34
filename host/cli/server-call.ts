import type { ResponseHandler } from "../../governance/egress/connection.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { egressFailure } from "../../governance/egress/failure.ts";
import { readTarget } from "../../governance/egress/target.ts";
import { errorText } from "../../governance/settings/problem-lines.ts";
import { readHttpUrl } from "../../governance/settings/setting.ts";
import { type Environment, loadSettings } from "../../governance/settings/settings.ts";
import { type CommandArgs, type ServerAnswer, UsageError } from "../../plugins/command.ts";
import { textOption } from "./command.ts";

/** Longer than any request of a command takes. */
const silenceMs = 120_000;

/** The option of every command that calls a server. */
export const urlOption = {
  url: { type: "string", value: "URL", help: "URL of the server (this machine, at SVC_PORT)." },
} as const;

/** Returns the URL of the server, without a trailing slash. */
export function serverUrl(args: CommandArgs, environment: Environment): string {
  const given = textOption(args, "url", "");
  if (given === "") return `http://127.0.0.1:${loadSettings(environment).port}`;
  try {
    return readHttpUrl(given);
  } catch (error) {
    throw new UsageError(`--url ${(error as Error).message}, such as http://127.0.0.1:8080.`);
  }
}

/** Builds a query from the options that were given. A pair maps an option to another query parameter. */
export function queryOf(args: CommandArgs, options: readonly (string | readonly [string, string])[]): string {
  const query = new URLSearchParams();
  for (const option of options) {
    const [name, field] = typeof option === "string" ? [option, option] : option;
    const value = textOption(args, name, "");
    if (value !== "") query.set(field, value);
  }
  return query.size === 0 ? "" : `?${query}`;
}

/** A request to a running server; a body is sent as JSON. */
export interface ServerRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly url: string;
  readonly key: string | undefined;
  readonly body: object | null;
  /** Names and values alternate; added to the headers of every request. */
  readonly headers?: readonly string[];
}

/**
 * Sends a request to a running server. Names and values alternate in `more`, which is added to the headers. Rejects with a
 * readable message if there is no response.
 */
export async function askServer(
  method: "GET" | "POST" | "PUT" | "DELETE",
  url: string,
  key: string | undefined,
  body: object | null = null,
  more: readonly string[] = [],
): Promise<ServerAnswer> {
  const egress = new Egress("operator");
  try {
    return await new Promise((resolve, reject) => {
      let status = 0;
      const pieces: Buffer[] = [];
      const handler: ResponseHandler = {
        onRequestStart: () => {},
        onResponseStart: (head) => {
          status = head.status;
        },
        onResponseData: (piece) => void pieces.push(Buffer.from(piece)),
        onResponseEnd: () => resolve({ status, body: Buffer.concat(pieces).toString("utf8") }),
        onResponseError: (error) => reject(noAnswer(url, error)),
      };
      const sent = body === null ? null : JSON.stringify(body);
      const headers = [...sentHeaders(key, sent !== null), ...more];
      egress.dispatch(readTarget(url), { method, headers, body: sent, silenceMs }, handler);
    });
  } finally {
    await egress.close();
  }
}

/** Returns the headers for the key and the JSON body. */
export function sentHeaders(key: string | undefined, hasBody: boolean): string[] {
  return [
    ...(key === undefined || key === "" ? [] : ["authorization", `Bearer ${key}`]),
    ...(hasBody ? ["content-type", "application/json"] : []),
  ];
}

/** Returns the error for a missing response. */
export function noAnswer(url: string, error: unknown): Error {
  const kind = egressFailure(error);
  const why = kind === "other" ? errorText(error) : kind;
  return new Error(`no answer from ${new URL(url).origin} (${why}): is svc running there?`);
}
