import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { readTarget } from "../../governance/egress/target.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import { addressPattern } from "./addresses.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { HttpCall } from "./http-call.ts";
import type { ModelEvents, ModelFailure, ModelProvider, ModelReply, ModelRequest } from "./provider.ts";

/** Address and credentials of a provider, independent of its protocol. */
export interface WireConfig {
  readonly name: string;
  /** The URL before the path of the protocol. */
  readonly baseUrl: string;
  /** Null for none. */
  readonly apiKey: Looked | null;
  /** Lower-case names with values; sent in addition to the headers of the protocol. */
  readonly headers?: readonly (readonly [string, Looked])[];
  /** Max silence: until the response head is complete, then between two reads. */
  readonly timeoutMs: number;
  /** Masks secrets in texts of the provider. */
  readonly mask: SecretMask;
}

/** A text, or a function that reads it for each call. */
export type Looked = string | (() => Promise<string>);

/** The protocol of a model provider. */
export interface WireProtocol extends WireCaller {
  /** The response type; an event stream by default. */
  readonly accept?: "application/json";
  begin(request: ModelRequest, events: ModelEvents): WireCall<ModelReply>;
}

/** The path and headers of a protocol. */
export interface WireCaller {
  /** Appended to the base URL. */
  readonly path: string;
  /** Names and values alternate; added to the headers of every request. */
  headers(apiKey: string | null): readonly string[];
}

/** One request in its protocol. */
export interface WireCall<Reply> {
  /** The header by which the provider continues the trace; absent for none. */
  traceparent?: string;
  readonly reader: AnswerReader<Reply>;
  /** Returns the body of the next request. */
  body(): string;
  /** Called after a refusal; returns true if `body` has changed and must be sent again. */
  adapt(failure: ModelFailure): boolean;
  /** Called after a reply; returns true if it continues in the response to the next `body`. */
  isContinued(reply: Reply): boolean;
}

/** Returns a provider that uses the protocol over HTTP, through the given egress. */
export function wireProvider(config: WireConfig, protocol: WireProtocol, env: Env, egress: Egress): ModelProvider {
  const call = wireCalls(config, protocol, env, egress, protocol.accept ?? "text/event-stream");
  return {
    name: config.name,
    start(request, events) {
      const wire = protocol.begin(request, events);
      if (request.traceparent !== undefined) wire.traceparent = request.traceparent;
      return call(wire);
    },
  };
}

/** Returns a function that makes calls in a protocol. */
export function wireCalls(
  config: WireConfig,
  protocol: WireCaller,
  env: Env,
  egress: Egress,
  accept: "text/event-stream" | "application/json",
): <Reply>(wire: WireCall<Reply>) => HttpCall<Reply> {
  const { apiKey, mask, timeoutMs, headers: more = [] } = config;
  const commonHeaders = ["content-type", "application/json", "accept", accept, "user-agent", "svc"];
  const target = readTarget(`${config.baseUrl.replace(/\/+$/, "")}${protocol.path}`);
  const addresses = addressPattern(target);
  const names = more.map(([name]) => name);
  /** The key (null for none) and the values of the other headers. */
  const credentials = [apiKey, ...more.map(([, value]) => value)];
  const isLiteral = (value: Looked | null): value is string | null => typeof value !== "function";
  const literal = credentials.every(isLiteral) ? credentials : null;
  const headersWith = ([key = null, ...values]: readonly (string | null)[]): string[] => {
    const own = names.flatMap((name, at) => [name, values[at] ?? ""]);
    return [...commonHeaders.slice(0, names.includes("user-agent") ? -2 : undefined), ...protocol.headers(key), ...own];
  };
  const literalHeaders = literal && headersWith(literal);

  return (wire) => {
    let sent: readonly (string | null)[] = literal ?? [];
    // Providers repeat the key that they refuse, so mask it even if it is short.
    const conceal = (words: string) =>
      mask.sent.text(
        sent.reduce<string>((text, secret) => (secret ? text.replaceAll(secret, "[REDACTED]") : text), words),
      );
    const call = new HttpCall({
      env,
      discretion: { conceal, addresses },
      timeoutMs,
      reader: wire.reader,
      sendDifferently(failure) {
        const isChanged = wire.adapt(failure);
        if (isChanged) send();
        return isChanged;
      },
      sendOn(reply) {
        const isContinued = wire.isContinued(reply);
        if (isContinued) send();
        return isContinued;
      },
    });
    const dispatch = (own: string[]): void => {
      const headers = wire.traceparent === undefined ? own : [...own, "traceparent", wire.traceparent];
      egress.dispatch(target, { method: "POST", headers, body: wire.body(), silenceMs: timeoutMs }, call);
    };
    const send = (): void => {
      if (literalHeaders !== null) dispatch(literalHeaders);
      else
        Promise.all(credentials.map((value) => (isLiteral(value) ? value : value()))).then(
          (found) => {
            sent = found;
            dispatch(headersWith(found));
          },
          (error) => call.giveUp(error),
        );
    };
    send();
    return call;
  };
}
