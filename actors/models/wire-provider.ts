import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { readTarget } from "../../governance/egress/target.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import { addressPattern } from "./addresses.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { HttpCall } from "./http-call.ts";
import type { ModelEvents, ModelFailure, ModelProvider, ModelReply, ModelRequest } from "./provider.ts";

/** How a provider is reached, whatever it speaks. */
export interface WireConfig {
  readonly name: string;
  /** Up to and without the path of the protocol. */
  readonly baseUrl: string;
  /** Null for none. */
  readonly apiKey: Looked | null;
  /** Names, in lower case, and values beside those of the protocol. */
  readonly headers?: readonly (readonly [string, Looked])[];
  /** The longest silence that is borne: before the answer's head is complete, and then between two bytes. */
  readonly timeoutMs: number;
  /** Hides secrets in what the provider says. */
  readonly mask: SecretMask;
}

/** A text, or what looks it up, which is then done for every call. */
export type Looked = string | (() => Promise<string>);

/** What a provider speaks to those who talk to a model. */
export interface WireProtocol extends WireCaller {
  /** The type of its answers. Default: an event stream. */
  readonly accept?: "application/json";
  begin(request: ModelRequest, events: ModelEvents): WireCall<ModelReply>;
}

/** Where a provider hears its protocol, and as whom. */
export interface WireCaller {
  /** Behind the base URL. */
  readonly path: string;
  /** Names and values in turn, beside those that every request has. */
  headers(apiKey: string | null): readonly string[];
}

/** One request on its way, as its protocol sees it. */
export interface WireCall<Reply> {
  readonly reader: AnswerReader<Reply>;
  /** The body of the request that is to be sent now. */
  body(): string;
  /** Whether what was refused is to be sent again: `body` is another one then. */
  adapt(failure: ModelFailure): boolean;
  /** Whether the answer goes on when `body`, another one then, is sent. */
  goesOn(reply: Reply): boolean;
}

/** Calls a provider over HTTP, through the given egress, in its protocol. */
export function wireProvider(config: WireConfig, protocol: WireProtocol, env: Env, egress: Egress): ModelProvider {
  const call = wireCalls(config, protocol, env, egress, protocol.accept ?? "text/event-stream");
  return { name: config.name, start: (request, events) => call(protocol.begin(request, events)) };
}

/** What makes calls in a protocol: each is begun with what it sends and how its answer is read. */
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
  /** The key, null for none, and the values of the other headers. */
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
    // Providers repeat the key that they refuse, however short it is.
    const conceal = (words: string) =>
      mask.told.text(
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
        const goesOn = wire.goesOn(reply);
        if (goesOn) send();
        return goesOn;
      },
    });
    const dispatch = (headers: string[]): void =>
      egress.dispatch(target, { method: "POST", headers, body: wire.body(), silenceMs: timeoutMs }, call);
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
