import { SvcError } from "../../bus/errors.ts";
import type { Outgoing, OutgoingRules } from "../egress/outgoing.ts";
import type { Settings } from "../settings/settings.ts";
import { isRateLimited } from "./rate-limited.ts";

/** Max bytes of an answer of the code host. */
const answerBytesMax = 4 * 1024 * 1024;

/** An answer of the code host, as JSON. */
export interface HostAnswer {
  readonly status: number;
  readonly value: unknown;
  readonly body: Readonly<Record<string, unknown>>;
  readonly list: readonly unknown[];
}

/** A request to the REST API of the code host. */
interface HostRequest {
  readonly method?: string;
  /** From the base of the API, with the query; or a whole URL. */
  readonly path: string;
  readonly token?: string | null;
  /** Name and password of a client, instead of a token. */
  readonly basic?: readonly [name: string, password: string];
  readonly form?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly signal?: AbortSignal;
}

/** Asks the REST API of the code host. Refuses with github_unavailable if there is no answer. */
export class RepoApi {
  readonly #outgoing: Pick<Outgoing, "whole">;
  readonly #settings: Pick<Settings, "githubApiUrl" | "githubTimeoutSeconds">;

  constructor(outgoing: Pick<Outgoing, "whole">, settings: Pick<Settings, "githubApiUrl" | "githubTimeoutSeconds">) {
    this.#outgoing = outgoing;
    this.#settings = settings;
  }

  async ask({ method = "GET", path, token = null, basic, form, json, signal }: HostRequest): Promise<HostAnswer> {
    const { githubApiUrl, githubTimeoutSeconds } = this.#settings;
    const headers: Record<string, string> = {
      ...{ accept: "application/vnd.github+json", "user-agent": "svc", "x-github-api-version": "2022-11-28" },
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(basic && { authorization: `Basic ${Buffer.from(basic.join(":")).toString("base64")}` }),
      ...(form && { "content-type": "application/x-www-form-urlencoded", accept: "application/json" }),
      ...(json !== undefined && { "content-type": "application/json" }),
    };
    const body = form ? new URLSearchParams(form).toString() : json === undefined ? null : JSON.stringify(json);
    const url = path.startsWith("https:") || path.startsWith("http:") ? path : githubApiUrl + path;
    try {
      const answer = await this.#outgoing.whole(
        rules,
        { url, method, headers, body, signal, timeoutMs: githubTimeoutSeconds * 1_000, follows: false },
        answerBytesMax,
      );
      const { status, bytes } = answer;
      if (status >= 500 || isRateLimited(answer)) throw new Error(`the answer has the status ${status}`);
      const value: unknown = bytes.length === 0 ? {} : JSON.parse(Buffer.from(bytes).toString("utf8"));
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      return {
        ...{ status, value, list: Array.isArray(value) ? value : [] },
        body: isObject ? (value as Record<string, unknown>) : {},
      };
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new SvcError("github_unavailable");
    }
  }
}

const rules: OutgoingRules = { tenantId: "", policy: "operator", allowHosts: [], credentials: [], onEvent() {} };
