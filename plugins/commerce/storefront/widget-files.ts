import { readFile } from "node:fs/promises";
import type { Env } from "../../../bus/env.ts";
import { type KeptBody, keepBody } from "../../../http/exchange/kept-body.ts";

// The files of the widget, which are read once. Each has its path in this repository, so that their imports of each other need no map.

const own = "plugins/commerce/storefront/widget/";
/** The page's script, the modules of the client that it uses, and its style. */
const paths = [
  ...["loader.js", "frame.js", "frame.css"].map((name) => own + name),
  ...["client", "error", "follow", "frames", "turn", "seen-frames", "waits"].map((name) => `client/${name}.js`),
];

/** The path of the script that adds the frame. */
export const loaderPath = `${own}loader.js`;
/** The path of the frame's script. */
export const scriptPath = `${own}frame.js`;
/** The path of the frame's style. */
export const stylePath = `${own}frame.css`;

/** A file of the widget. */
export interface WidgetFile extends KeptBody {
  readonly contentType: string;
}

let read: Promise<ReadonlyMap<string, WidgetFile>> | null = null;

/** Returns the files by path; they are read at the first request. */
export function widgetFiles(env: Env): Promise<ReadonlyMap<string, WidgetFile>> {
  read ??= readFiles(env).catch((error: unknown) => {
    read = null;
    throw error;
  });
  return read;
}

async function readFiles(env: Env): Promise<ReadonlyMap<string, WidgetFile>> {
  const files = new Map<string, WidgetFile>();
  for (const path of paths) {
    const url = new URL(`../../../${path}`, import.meta.url);
    const contentType = path.endsWith(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
    files.set(path, { ...(await keepBody([await readFile(url, "utf8")], env)), contentType });
  }
  return files;
}
