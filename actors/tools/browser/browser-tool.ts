import { isBelow } from "../../../governance/egress/credentials.ts";
import { readTarget } from "../../../governance/egress/target.ts";
import { type BrowserEntry, browserOf } from "../../../governance/settings/browser-settings.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { includesTenant } from "../../../governance/settings/tenant-list.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { BrowserTool } from "../../../manifests/sections/browser-tools.ts";
import { errorOfStatus, requestFailure } from "../request-failure.ts";
import type { ToolServices } from "../services.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { contentOf } from "../web/content.ts";
import type { BrowserProcess } from "./browser-process.ts";
import type { Visit, VisitResult } from "./messages.ts";

// spec.browser_tools: pages in a browser of the operator (decisions 107 and 174).

/** Max time for the address of a browser's DevTools. */
const versionMs = 10_000;
const versionBytesMax = 64 * 1024;

/** The settings that browser tools need. */
type BrowserSettings = Pick<Settings, "browsers" | "egressPrivate" | "maxUploadBytes">;

/** Returns the source of tools in spec.browser_tools. */
export function browserToolSource(settings: BrowserSettings, browsers: Pick<BrowserProcess, "visit">): ToolSource {
  return {
    name: "spec.browser_tools",
    offers: [],
    resolve(name: string, { browserTools }: CompiledAgent) {
      const declared = browserTools.get(name);
      return declared && browserTool(declared, settings, browsers);
    },
  };
}

interface Arguments {
  readonly url: string;
  readonly full_page?: boolean;
}

function browserTool(declared: BrowserTool, settings: BrowserSettings, browsers: Pick<BrowserProcess, "visit">): Tool {
  return {
    ...declared,
    transport: "remote",
    // Later than the timeout of the visit, which has the better message; the visit may wait for its turn.
    timeoutMs: declared.timeoutMs + 60_000,
    execute: (args: Arguments, context) => call(declared, args, settings, browsers, context),
  };
}

async function call(
  tool: BrowserTool,
  { url: text, full_page = false }: Arguments,
  { browsers, egressPrivate, maxUploadBytes }: BrowserSettings,
  visits: Pick<BrowserProcess, "visit">,
  { services, tenantId, signal }: ToolContext,
): Promise<ToolResult> {
  const { prefix, op, timeoutMs } = tool;
  const url = URL.parse(text, prefix === "" ? undefined : prefix);
  if (url === null) return toolError("invalid_arguments", "url is not a URL");
  const base = prefix === "" ? null : new URL(prefix);
  if (base !== null && !(url.origin === base.origin && isBelow(url.pathname, base.pathname)))
    return toolError("permission_denied", `egress_blocked: the address is not below ${prefix}`);
  const browser = browserOf(browsers, tool.browser, tenantId);
  if (browser === null) return toolError("transport_unavailable", `the browser ${tool.browser} is not available`);
  const { rules } = services.egress.agent;
  try {
    readTarget(url.href);
    if (!services.egress.agent.admits(url.href)) return blocked;
  } catch (error) {
    rules.onEvent({ status: "blocked", host: url.hostname, port: Number(url.port), reason: "url" });
    return requestFailure(error, timeoutMs);
  }
  let devTools: Visit["devTools"];
  try {
    devTools = await devToolsOf(browser, Math.min(versionMs, timeoutMs), services);
  } catch (error) {
    const { text } = requestFailure(error, versionMs);
    return toolError("transport_unavailable", `the browser ${tool.browser} does not answer: ${text}`);
  }
  const visit: Visit = {
    ...{ op, url: url.href, origin: base?.origin ?? null, isFullPage: full_page, devTools, proxy: browser.proxy },
    targets: egressPrivate.filter(({ tenants }) => includesTenant(tenants, tenantId)),
    allowHosts: rules.allowHosts,
    timeoutMs,
    imageBytesMax: maxUploadBytes,
  };
  const outcome = await visits.visit(tenantId, visit, rules.onEvent, signal);
  if ("error" in outcome) return toolError(outcome.error, outcome.text);
  return resultOf(outcome, services);
}

const blocked = toolError("permission_denied", "egress_blocked: destination not permitted");

async function resultOf(
  { url, status, kind, text, bytes, notes }: VisitResult,
  { compute }: ToolServices,
): Promise<ToolResult> {
  const page = { bytes: Buffer.from(text), headers: { "content-type": "text/html; charset=utf-8" }, url };
  const content = kind === "html" ? (await contentOf(page, "text", compute)).text : text;
  const cuts = notes.map((note) => `\n[${note}]`).join("");
  const shown = `HTTP ${status} ${url}\n\n${content}${cuts}`;
  const host = new URL(url).hostname;
  const taint = ["browser", ...(host === "" ? [] : [`web:${host}`])];
  if (status >= 400) return { ...toolError(errorOfStatus(status), shown), taint };
  if (bytes === undefined) return { text: shown, taint };
  if (kind === "pdf") return { text: shown, taint, documents: [{ data: bytes, filename: "page.pdf" }] };
  return { text: shown, taint, images: [{ data: bytes, filename: "page.jpg" }] };
}

/** Returns the socket of a browser's DevTools. */
async function devToolsOf(
  { url }: BrowserEntry,
  timeoutMs: number,
  { egress }: ToolServices,
): Promise<Visit["devTools"]> {
  const base = new URL(url);
  if (base.protocol === "ws:" || base.protocol === "wss:") return { url, headers: {} };
  const at = new URL(base);
  at.pathname = `${base.pathname.replace(/\/$/, "")}/json/version`;
  const ask = (headers: Readonly<Record<string, string>>) =>
    egress.operator.whole(
      { url: at.href, headers, timeoutMs, stays: (next) => next.origin === base.origin },
      versionBytesMax,
    );
  let headers: Record<string, string> = {};
  let answer = await ask(headers);
  // Chromium refuses names other than localhost, so that no page of a user reaches its DevTools by DNS rebinding.
  if (answer.status === 500 && Buffer.from(answer.bytes).includes("Host header")) {
    headers = { host: "localhost" };
    answer = await ask(headers);
  }
  const { webSocketDebuggerUrl } = versionOf(Buffer.from(answer.bytes).toString());
  const socket = new URL(String(webSocketDebuggerUrl));
  const found = new URL(base);
  found.protocol = base.protocol === "https:" ? "wss:" : "ws:";
  // The browser names itself by an address of its own network.
  found.pathname = socket.pathname;
  found.search = socket.search || base.search;
  return { url: found.href, headers };
}

function versionOf(text: string): { readonly webSocketDebuggerUrl?: unknown } {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
