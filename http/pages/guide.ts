import { readdir, readFile } from "node:fs/promises";

// The documents of docs/, which change only with a release.

const directory = new URL("../../docs/", import.meta.url);
/** Skills that ship with svc teach it to agents that write code too. */
const skillsDirectory = new URL("../../governance/skills/bundled/", import.meta.url);

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
  const skills = (await readdir(skillsDirectory).catch(() => [])).sort();
  const read = await Promise.all([...pages.map(readPage), ...skills.map(readSkill)]);
  return new Map(read.map((page) => [page.name, page]));
}

async function readSkill(skill: string): Promise<GuidePage> {
  const text = await readFile(new URL(`${skill}/SKILL.md`, skillsDirectory), "utf8");
  const [, title = skill] = /^# (.+)$/m.exec(text) ?? [];
  const [, about = ""] = /^description: (.+)$/m.exec(text) ?? [];
  return { name: `${skill}.skill.md`, title, about, text };
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
  const all = [...pages.values()].map(({ name, title, about }) => ({
    isSkill: name.endsWith(".skill.md"),
    line: `- [${title}](/docs/pages/${name}): ${about}`,
  }));
  const linesOf = (skills: boolean) => all.flatMap(({ isSkill, line }) => (isSkill === skills ? [line] : []));
  return `# svc

> A self-hosted agent harness: one declarative manifest becomes a governed agent, served over chat, SSE and the OpenAI protocol.

Each link is a page of plain Markdown. /openapi.json has every route with its fields and an example.

## Documents

${linesOf(false).join("\n")}

## Skills

Each is a SKILL.md of the Agent Skills format, for agents that work with svc.

${linesOf(true).join("\n")}
`;
}
