import type { ErrorCode } from "../../bus/errors.ts";
import type { Outgoing, OutgoingRules } from "../egress/outgoing.ts";
import { isRateLimited } from "../repos/rate-limited.ts";
import { signInRefusal } from "./refusal.ts";

/** Max bytes of an answer of an identity provider. */
const answerBytesMax = 1024 * 1024;

/** An answer of an identity provider, as JSON. */
export interface ProviderAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly list: readonly unknown[];
}

/** Sends requests to one identity provider. Any failure is refused with `unavailable`. */
export class ProviderClient {
  readonly #outgoing: Pick<Outgoing, "whole">;
  readonly #timeoutMs: number;
  readonly #unavailable: ErrorCode;

  constructor(outgoing: Pick<Outgoing, "whole">, timeoutSeconds: number, unavailable: ErrorCode) {
    this.#outgoing = outgoing;
    this.#timeoutMs = timeoutSeconds * 1_000;
    this.#unavailable = unavailable;
  }

  /** Reads JSON; `token` is sent as a bearer token. */
  get(url: string, token: string | null = null): Promise<ProviderAnswer> {
    return this.#send({ url, headers: token === null ? {} : { authorization: `Bearer ${token}` } });
  }

  /** Posts a form. */
  post(url: string, form: Readonly<Record<string, string>>): Promise<ProviderAnswer> {
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return this.#send({ url, method: "POST", headers, body: new URLSearchParams(form).toString() });
  }

  async #send(request: { url: string; method?: string; headers: Record<string, string>; body?: string }) {
    try {
      const headers = { accept: "application/json", "user-agent": "svc", ...request.headers };
      const asked = { ...request, headers, timeoutMs: this.#timeoutMs, follows: false };
      const answer = await this.#outgoing.whole(rules, asked, answerBytesMax);
      const { status, bytes } = answer;
      if (status >= 500 || isRateLimited(answer)) throw new Error(`the answer has the status ${status}`);
      const value: unknown = bytes.length === 0 ? {} : JSON.parse(Buffer.from(bytes).toString("utf8"));
      const list: readonly unknown[] = Array.isArray(value) ? value : [];
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      return { status, body: isObject ? (value as Record<string, unknown>) : {}, list };
    } catch {
      throw signInRefusal(this.#unavailable);
    }
  }
}

const rules: OutgoingRules = { tenantId: "", policy: "operator", allowHosts: [], credentials: [], onEvent() {} };
