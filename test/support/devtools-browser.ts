import { spawn } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { modelTestCertificate } from "./certificate.ts";
import { eventually } from "./eventually.ts";
import { type Cleanup, tempDir } from "./temp.ts";

/** A headless Chromium whose DevTools listen on loopback, as an operator would start it for SVC_BROWSERS. */
export interface DevToolsBrowser {
  /** The address of its DevTools. */
  readonly url: string;
  /** The number of its open pages; one at its start. */
  pages(): Promise<number>;
  /** Stops all its processes, as if it hung. */
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
}

/** Hash of the public key of the tests' certificate, the only untrusted one that the browser accepts (docs/browser.md). */
const testKeyHash = createHash("sha256")
  .update(new X509Certificate(modelTestCertificate.cert).publicKey.export({ type: "spki", format: "der" }))
  .digest("base64");

/** Starts a browser with a profile of its own. */
export async function startDevToolsBrowser(executable: string, atEnd: Cleanup): Promise<DevToolsBrowser> {
  const profile = tempDir(atEnd);
  const child = spawn(
    executable,
    [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--disable-component-update",
      "--no-first-run",
      `--ignore-certificate-errors-spki-list=${testKeyHash}`,
      `--user-data-dir=${profile}`,
      "--remote-debugging-port=0",
      "about:blank",
    ],
    { detached: true, stdio: "ignore", env: { PATH: process.env.PATH ?? "", HOME: profile } },
  );
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const signal = (name: NodeJS.Signals): void => {
    // Its process group: the children of the browser too.
    if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid as number), name);
  };
  const kill = async (): Promise<void> => {
    signal("SIGKILL");
    await ended;
  };
  atEnd.after(kill);
  let port = "";
  await eventually("the browser listens", async () => {
    const file = join(profile, "DevToolsActivePort");
    [port = ""] = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    return port !== "";
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    pages: async () => {
      const found = (await (await fetch(`${url}/json/list`)).json()) as readonly { readonly url: string }[];
      // Parts of its own user interface are pages too.
      return found.filter((each) => !each.url.startsWith("chrome:")).length;
    },
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    kill,
  };
}
