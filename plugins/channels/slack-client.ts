import type { WebClient } from "@slack/web-api";
import type { OutgoingRules } from "../../governance/egress/outgoing.ts";
import { fetchWith } from "../../governance/egress/sdk-fetch.ts";
import { text } from "../../governance/settings/setting.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import type { PluginActorServices, PluginDeps } from "../plugin.ts";
import type { ChannelEntry } from "./channel-settings.ts";
import { type ChannelFile, type PlatformClient, PlatformFailure } from "./platform.ts";

const apiUrlDefault = "https://slack.com/api/";
const filesHost = "files.slack.com";
/** Max time of a call. */
const callMs = 10_000;

export const slackApiUrl = text("SLACK_API_URL", apiUrlDefault, "The Web API of Slack, for tests and proxies.", {
  pattern: /^https?:\/\/[^\s?#]+\/$/,
  reason: "must be a URL that ends in a slash",
});

/** Errors of the Web API that end by themselves. */
const passing: ReadonlySet<string> = new Set([
  ...["ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"],
  ...["team_added_to_org", "accesslimited"],
]);

/** Calls Slack's Web API. The token goes to the API and to the host of the files, and follows no redirect. */
export class SlackClient implements PlatformClient {
  readonly #web: WebClient;
  readonly #token: string;
  readonly #tenantId: string;
  readonly #apiUrl: string;
  readonly #services: PluginActorServices;

  private constructor(web: WebClient, token: string, tenantId: string, apiUrl: string, services: PluginActorServices) {
    this.#web = web;
    this.#token = token;
    this.#tenantId = tenantId;
    this.#apiUrl = apiUrl;
    this.#services = services;
  }

  static async open(
    token: string,
    { tenant_id }: ChannelEntry,
    services: PluginDeps & PluginActorServices,
  ): Promise<SlackClient> {
    const { WebClient } = await import("@slack/web-api");
    const url = settingOf(services.settings, slackApiUrl);
    const web = new WebClient(token, {
      slackApiUrl: url,
      fetch: fetchWith(services.outgoing, rulesFor(url, tenant_id)) as never,
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
      allowAbsoluteUrls: false,
      timeout: callMs,
      logger: silent as never,
    });
    return new SlackClient(web, token, tenant_id, url, services);
  }

  async post(channel: string, thread: string, said: string): Promise<string> {
    const quiet = { unfurl_links: false, unfurl_media: false };
    const { ts } = await called(() =>
      this.#web.chat.postMessage({ channel, thread_ts: thread, text: said, mrkdwn: true, ...quiet }),
    );
    if (typeof ts !== "string") throw new PlatformFailure("the answer has no ts", null, false);
    return ts;
  }

  async edit(channel: string, ts: string, said: string): Promise<void> {
    await called(() => this.#web.chat.update({ channel, ts, text: said }));
  }

  async download({ url }: ChannelFile, bytesMax: number): Promise<Uint8Array> {
    const host = URL.parse(url)?.host;
    const apiHost = new URL(this.#apiUrl).host;
    const isOfStandIn = this.#apiUrl !== apiUrlDefault && host === apiHost;
    const isSecure = URL.parse(url)?.protocol === "https:" && host === filesHost;
    if (!isOfStandIn && !isSecure) throw new PlatformFailure("the file is at another host", null, true);
    const request = { url, headers: { authorization: `Bearer ${this.#token}` }, follows: false, timeoutMs: 3 * callMs };
    const answer = await this.#services.outgoing.whole(rulesFor(url, this.#tenantId), request, bytesMax).catch(() => {
      throw new PlatformFailure("no answer", null, false);
    });
    // Without access Slack redirects to a page, or sends one.
    const isPage = (answer.headers["content-type"] ?? "").startsWith("text/html");
    if (answer.status !== 200 || isPage || answer.isCut)
      throw new PlatformFailure(`status ${answer.status}`, null, answer.status < 500 && answer.status !== 429);
    return answer.bytes;
  }
}

/** Returns the rules of requests to one host, which the operator's settings name. */
function rulesFor(url: string, tenantId: string): OutgoingRules {
  const policy = url.startsWith("https://") && /^https:\/\/(files\.)?slack\.com\//.test(url) ? "public" : "operator";
  return { tenantId, policy, allowHosts: [[new URL(url).hostname]], credentials: [], onEvent() {} };
}

/** Calls the Web API. Throws PlatformFailure, whose text has no text of Slack but its error code. */
async function called<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { retryAfter, data, statusCode } = error as {
      readonly retryAfter?: number;
      readonly data?: { readonly error?: unknown };
      readonly statusCode?: number;
    };
    if (typeof retryAfter === "number") throw new PlatformFailure("status 429", retryAfter * 1000, false);
    if (typeof data?.error === "string") {
      const code = /^[a-z_]{1,64}$/.test(data.error) ? data.error : "an unknown error";
      throw new PlatformFailure(code, null, !passing.has(code));
    }
    throw new PlatformFailure(statusCode === undefined ? "no answer" : `status ${statusCode}`, null, false);
  }
}

/** The library logs requests, with their texts. */
const silent = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  getLevel: () => "error",
  setName() {},
};
