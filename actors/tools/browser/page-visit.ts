import type { BrowserContext, BrowserContextOptions, CDPSession, Page } from "playwright-core";
import type { Env } from "../../../bus/env.ts";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { ForwardProxy, ProxyPass } from "../../../governance/egress/forward-proxy.ts";
import type { EgressEvent } from "../../../governance/egress/outgoing.ts";
import type { EgressRoute } from "../../../governance/egress/route.ts";
import type { HostPort } from "../../../governance/settings/browser-settings.ts";
import { requestFailure } from "../request-failure.ts";
import { DevToolsTransport } from "./devtools-transport.ts";
import type { Visit, VisitOutcome } from "./messages.ts";
import { resultOf, viewport } from "./page-result.ts";
import { initScript } from "./page-scripts.ts";
import { VisitError } from "./visit-error.ts";

/** Max bytes that one visit loads, in both directions. */
const loadedBytesMax = 64 * 1024 * 1024;
/** Windows of a page beyond which a visit ends. */
const windowsMax = 20;
/** Time for the page to become quiet after it has loaded. */
const quietMs = 1_500;

/** The parts of the process that visits share. */
export interface Visitors {
  readonly env: Pick<Env, "timer" | "monotonic">;
  readonly route: EgressRoute;
  readonly proxy: ForwardProxy;
  /** Where the proxy listens. */
  readonly listens: HostPort;
}

/**
 * Opens a page in a new context of a browser, whose connections all go through the proxy, and returns what was asked for. Never
 * rejects. An abort disposes of the context.
 */
export async function visitPage(
  visit: Visit,
  { env, route, proxy, listens }: Visitors,
  onEvent: (event: EgressEvent) => void,
  signal: AbortSignal,
): Promise<VisitOutcome> {
  const { targets, allowHosts, timeoutMs } = visit;
  const pass = proxy.open({ targets, allowHosts, bytesMax: loadedBytesMax, onEvent });
  const transport = new DevToolsTransport();
  const endsAt = env.monotonic() + timeoutMs;
  const late = `no complete answer within ${timeoutMs} ms`;
  const timer = env.timer(timeoutMs, () => transport.end(late));
  const abort = (): void => transport.end("the call was given up");
  const open = async (): Promise<VisitOutcome> => {
    const { chromium } = await import("playwright-core");
    await transport.connect(visit.devTools, route, env);
    const browser = await chromium.connectOverCDP(transport, { noDefaults: true, timeout: 0 });
    const context = await browser.newContext(contextOptions(visit.proxy, listens, pass));
    await context.addInitScript(initScript);
    return new PageVisit(visit, context, transport, pass, () => endsAt - env.monotonic()).outcome();
  };
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await Promise.race([open(), transport.over]);
  } catch (error) {
    if (transport.ended === late) return { error: "timeout", text: late };
    if (error instanceof VisitError) return { error: error.code, text: error.message };
    if (signal.aborted) return { error: "interrupted", text: "the call was given up" };
    return { error: "transport_unavailable", text: transport.ended ?? reasonOf(error) };
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", abort);
    pass.close();
    transport.close();
  }
}

function contextOptions(proxy: HostPort | null, listens: HostPort, pass: ProxyPass): BrowserContextOptions {
  const { host, port } = proxy ?? listens;
  return {
    acceptDownloads: false,
    serviceWorkers: "block",
    viewport,
    proxy: {
      server: `http://${host}:${port === 0 ? listens.port : port}`,
      // Browsers pass the proxy by for loopback otherwise.
      bypass: "<-loopback>",
      username: pass.name,
      password: pass.password,
    },
  };
}

/** One page in its context. */
class PageVisit {
  readonly #visit: Visit;
  readonly #context: BrowserContext;
  readonly #transport: DevToolsTransport;
  readonly #pass: ProxyPass;
  readonly #leftMs: () => number;
  readonly #notes: string[] = [];
  /** The newest request for the page itself. */
  #asked: string;
  #status = 0;

  constructor(
    visit: Visit,
    context: BrowserContext,
    transport: DevToolsTransport,
    pass: ProxyPass,
    leftMs: () => number,
  ) {
    this.#visit = visit;
    this.#context = context;
    this.#transport = transport;
    this.#pass = pass;
    this.#leftMs = leftMs;
    this.#asked = visit.url;
  }

  async outcome(): Promise<VisitOutcome> {
    const page = await this.#context.newPage();
    this.#watch(page);
    await this.#open(page);
    const session = await this.#context.newCDPSession(page);
    const result = await this.#read(page, session);
    // The page may have moved on while it was read.
    this.#refuseUrl(page.url());
    if (this.#pass.isCut) this.#notes.push(`the page loads more than ${loadedBytesMax} bytes, and the rest was cut`);
    return { ...result, url: page.url(), status: this.#status, notes: [...this.#notes, ...result.notes] };
  }

  #watch(page: Page): void {
    let windows = 0;
    this.#context.on("page", (other) => {
      if (other === page) return;
      if (++windows > windowsMax) this.#transport.end("the page opens too many windows");
      else void other.close().catch(() => {});
    });
    page.on("crash", () => this.#transport.end("the page has crashed the browser's process for it"));
    page.on("request", (request) => {
      if (request.isNavigationRequest() && request.frame() === page.mainFrame()) this.#asked = request.url();
    });
    page.on("response", (response) => {
      const request = response.request();
      if (request.isNavigationRequest() && request.frame() === page.mainFrame()) this.#status = response.status();
    });
  }

  async #open(page: Page): Promise<void> {
    try {
      await page.goto(this.#visit.url, { waitUntil: "commit", timeout: 0 });
    } catch (error) {
      if (this.#transport.ended !== null) throw error;
      throw this.#failureOf(error as Error);
    }
    // Time is left to read a page that never ends.
    const loadMs = this.#leftMs() * 0.6;
    const isLoaded = await page.waitForLoadState("load", { timeout: loadMs }).then(
      () => true,
      () => false,
    );
    if (!isLoaded) this.#notes.push("the page was still loading");
    else
      await page.waitForLoadState("networkidle", { timeout: Math.min(quietMs, this.#leftMs() * 0.3) }).catch(() => {});
    if (this.#pass.connections === 0)
      throw new VisitError("transport_unavailable", "the browser does not use the proxy of svc");
    this.#refuseUrl(page.url());
  }

  /** Reads the page. Reads it again if its document changes during that. */
  async #read(page: Page, session: CDPSession) {
    for (let tries = 1; ; tries++)
      try {
        return await resultOf(this.#visit, page, session, this.#leftMs());
      } catch (error) {
        if (error instanceof VisitError || this.#transport.ended !== null) throw error;
        if (tries === 3) throw new VisitError("provider_error", `the page cannot be read: ${reasonOf(error)}`);
        await page.waitForLoadState("load", { timeout: Math.max(1, this.#leftMs() * 0.3) }).catch(() => {});
      }
  }

  /** Throws VisitError if the page is not one that the tool may return. */
  #refuseUrl(url: string): void {
    const failure = this.#pass.failureOf(this.#asked);
    if (url.startsWith("chrome-error:"))
      throw failure === null
        ? new VisitError("transport_unavailable", "the page could not be loaded")
        : failed(failure, this.#visit.timeoutMs);
    if (!/^https?:/.test(url) && url !== "about:blank") throw failed(new EgressBlocked(), this.#visit.timeoutMs);
    const { origin } = this.#visit;
    if (origin !== null && new URL(url).origin !== origin)
      throw new VisitError("permission_denied", `egress_blocked: the page has moved away from ${origin}`);
  }

  #failureOf(error: Error): VisitError {
    const [, code = ""] = /\b(ERR_[A-Z0-9_]+)/.exec(error.message) ?? [];
    if (/^ERR_(?:UNSAFE_REDIRECT|UNKNOWN_URL_SCHEME|DISALLOWED_URL_SCHEME|INVALID_REDIRECT)$/.test(code))
      return failed(new EgressBlocked(), this.#visit.timeoutMs);
    const failure = this.#pass.failureOf(this.#asked);
    if (failure !== null) return failed(failure, this.#visit.timeoutMs);
    if (/Download is starting/.test(error.message))
      return new VisitError("provider_error", "the address is a download, which browsers of svc refuse");
    if (code === "ERR_PROXY_CONNECTION_FAILED")
      return new VisitError("transport_unavailable", "the browser does not reach the proxy of svc");
    return new VisitError("transport_unavailable", `the page could not be loaded: ${reasonOf(error)}`);
  }
}

function failed(error: Error, timeoutMs: number): VisitError {
  const { error: code, text } = requestFailure(error, timeoutMs);
  return new VisitError(code ?? "transport_unavailable", text);
}

/** Returns the first line of an error of Playwright, without the name of its function. */
function reasonOf(error: unknown): string {
  const [line = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
  return line.replace(/^[\w.]+: /, "").slice(0, 300);
}
