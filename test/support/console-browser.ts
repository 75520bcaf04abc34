import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
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
let axe: string | null = null;

export async function startConsoleBrowser(
  executablePath: string,
  atEnd: Cleanup,
  more: readonly string[] = [],
): Promise<ConsoleBrowser> {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", ...more] });
  atEnd.after(() => browser.close());
  return browser;
}

/** Opens the console in a tab of its own.  */
export async function openConsole(
  browser: ConsoleBrowser,
  server: Pick<TestServer, "url">,
  { key, at = "", width = 1280, theme = "light", without }: OpenOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: theme });
  const page = await context.newPage();
  page.setDefaultTimeout(stepMsMax);
  if (without !== undefined) await page.route(without, (route) => route.abort());
  if (key !== undefined)
    await page.addInitScript(
      (text) => sessionStorage.getItem("svc.key") ?? sessionStorage.setItem("svc.key", text),
      key,
    );
  page.on("close", () => void context.close().catch(() => {}));
  await page.goto(`${server.url}/console${at}`);
  return page;
}

/** Returns what axe-core finds wrong with the page for people who use a keyboard or a screen reader. */
export async function findProblems(page: Page): Promise<string[]> {
  axe ??= readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // The debugger runs it, so that the policy of the page does not apply.
  await page.evaluate(axe);
  return (await page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + " " + target.join(" "))))`)) as string[];
}
