import { readdir, readFile } from "node:fs/promises";

// The documents of docs/, which change only with a release.

const directory = new URL("../../docs/", import.meta.url);

/** A document for people, and for programs that read Markdown. */
export interface GuidePage {
  readonly name: string;
  readonly title: string;
  /** The first sentence about the subject of the page. */
  readonly about: string;
  readonly text: string;
}

/** Returns the pages by name; they are read once. Empty if this installation has no documents. */
export function guide(): Promise<ReadonlyMap<string, GuidePage>> {
  read ??= readPages().catch((error: unknown) => {
    read = null;
    throw error;
  });
  return read;
}

let read: Promise<ReadonlyMap<string, GuidePage>> | null = null;

async function readPages(): Promise<ReadonlyMap<string, GuidePage>> {
  const names = await readdir(directory).catch(() => []);
  const pages = names.filter((name) => name.endsWith(".md")).sort();
  return new Map(await Promise.all(pages.map(async (name) => [name, await readPage(name)] as const)));
}

async function readPage(name: string): Promise<GuidePage> {
  const text = await readFile(new URL(name, directory), "utf8");
  const [, title = name] = /^# (.+)$/m.exec(text) ?? [];
  const [, first = ""] = /^# .+\n\n([^\n][\s\S]*?)\n\n/m.exec(text) ?? [];
  const about = first.replace(/\s+/g, " ").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  const [, sentence = about] = /^(?:Generated from .*? by `npm run generate`\. )?(.*?\.)(?= |$)/.exec(about) ?? [];
  return { name, title, about: sentence, text };
}

/** Returns the guide as a list of links, in the form of llmstxt.org. */
export function guideIndex(pages: ReadonlyMap<string, GuidePage>): string {
  const lines = [...pages.values()].map(({ name, title, about }) => `- [${title}](/docs/pages/${name}): ${about}`);
  return `# svc

> A self-hosted agent harness: one declarative manifest becomes a governed agent, served over chat, SSE and the OpenAI protocol.

Each link is a page of plain Markdown. /openapi.json has every route with its fields and an example.

## Documents

${lines.join("\n")}
`;
}
