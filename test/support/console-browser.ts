import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { TestServer } from "./server.ts";
import type { Cleanup } from "./temp.ts";

// A browser for the tests of the console. Its start costs a second, so the tests of a file share it.

export type ConsoleBrowser = Browser;

interface OpenOptions {
  readonly key?: string;
  /** The part of the address after `#`, with it. */
  readonly at?: string;
  readonly width?: number;
  readonly theme?: "light" | "dark";
  /** Requests that never reach the server, by the pattern of their address. */
  readonly without?: string;
}

const stepMsMax = 20_000;
/** `--process-per-site` lets tabs of one server share a renderer process where Chromium allows it. */
const flags = ["--no-sandbox", "--disable-gpu", "--process-per-site"];
const viewport = { width: 1280, height: 800 };
let axe: string | null = null;

export async function startConsoleBrowser(
  executablePath: string,
  atEnd: Cleanup,
  more: readonly string[] = [],
): Promise<ConsoleBrowser> {
  const browser = await chromium.launch({ executablePath, args: [...flags, ...more] });
  atEnd.after(() => browser.close());
  return browser;
}

/** The contexts of tabs with and without a key, by browser. A context costs a second, and its tabs share the cache of files. */
const contexts = new WeakMap<Browser, { withKey: Promise<BrowserContext>; without: Promise<BrowserContext> }>();

/** Opens the console in a tab of its own, with a session storage of its own. A tab without a key starts without cookies too. */
export async function openConsole(
  browser: ConsoleBrowser,
  server: Pick<TestServer, "url">,
  { key, at = "", width = 1280, theme = "light", without }: OpenOptions = {},
): Promise<Page> {
  const context = await contextOf(browser, key !== undefined);
  if (key === undefined) await context.clearCookies();
  const page = await context.newPage();
  page.setDefaultTimeout(stepMsMax);
  if (width !== viewport.width) await page.setViewportSize({ ...viewport, width });
  if (theme !== "light") await page.emulateMedia({ colorScheme: theme });
  if (without !== undefined) await page.route(without, (route) => route.abort());
  if (key !== undefined)
    await page.addInitScript(
      (text) => sessionStorage.getItem("svc.key") ?? sessionStorage.setItem("svc.key", text),
      key,
    );
  await page.goto(`${server.url}/console${at}`);
  return page;
}

function contextOf(browser: Browser, hasKey: boolean): Promise<BrowserContext> {
  const open = () => browser.newContext({ viewport, colorScheme: "light", reducedMotion: "reduce" });
  const known = contexts.get(browser) ?? { withKey: open(), without: open() };
  contexts.set(browser, known);
  return hasKey ? known.withKey : known.without;
}

/** Returns what axe-core finds wrong with the page for people who use a keyboard or a screen reader. */
export async function findProblems(page: Page): Promise<string[]> {
  axe ??= readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // The debugger runs it, so that the policy of the page does not apply.
  if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(axe);
  // A button that fades in has little contrast for a moment.
  await page.evaluate(
    "Promise.all(document.getAnimations().map((each) => each instanceof CSSTransition && each.finished.catch(() => {})))",
  );
  return (await page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + " " + target.join(" "))))`)) as string[];
}
