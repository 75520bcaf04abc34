import { activateSkill, deactivateSkill } from "../../manifests/sections/skill-tools.ts";
import type { ModelMessage } from "../models/provider.ts";
import type { LogEntry } from "./entry.ts";

// The active skills of a branch. They follow from the calls of activate_skill and deactivate_skill in the log, so that a fork, a rewind
// and a resumed run have those of their branch. A compaction, which cuts calls off, names the skills that were active, and so does the
// message that opens a turn, because a window may begin there.

/** A message of the branch; `short` is null if it is complete. */
type SeenMessage = Pick<ModelMessage, "role" | "content" | "tool_calls" | "tool_call_id"> & { readonly short: unknown };

/** Versions of the active skills, by name. */
export type ActiveSkills = ReadonlyMap<string, string>;

/** Skills that were active before the part of the branch that begins with the message. */
const carried = new WeakMap<SeenMessage, ActiveSkills>();

/** Notes the skills that an event names for its message: a compaction, or the message that opens a turn. */
export function carrySkills(message: SeenMessage, named: unknown): void {
  if (!Array.isArray(named)) return;
  const skills = new Map<string, string>();
  for (const entry of named) {
    const [, name, version] = /^([a-z0-9-]{1,64})@(.{0,64})$/.exec(String(entry)) ?? [];
    if (name !== undefined && version !== undefined) skills.set(name, version);
  }
  if (skills.size > 0) carried.set(message, skills);
}

/** Returns the active skills as events name them. */
export function namedSkills(skills: ActiveSkills): readonly string[] {
  return [...skills].map(([name, version]) => `${name}@${version}`);
}

/** Returns the active skills after the messages. */
export function activeSkills(messages: readonly SeenMessage[]): ActiveSkills {
  let active: Map<string, string> | null = null;
  const open = new Map<string, { readonly name: string; readonly isOn: boolean }>();
  for (const message of messages) {
    const known = carried.get(message);
    if (known !== undefined) active = new Map(known);
    for (const { id, name: tool, args } of message.tool_calls ?? []) {
      if (tool !== activateSkill.name && tool !== deactivateSkill.name) continue;
      const { name } = args as { readonly name?: unknown };
      if (typeof name === "string") open.set(id, { name, isOn: tool === activateSkill.name });
    }
    if (message.role !== "tool" || open.size === 0) continue;
    const call = open.get(message.tool_call_id ?? "");
    if (call === undefined) continue;
    open.delete(message.tool_call_id ?? "");
    const version = versionIn(message.content, call.name);
    active ??= new Map();
    if (call.isOn && version !== null) active.set(call.name, version);
    if (!call.isOn && message.content.startsWith(endOf(call.name))) active.delete(call.name);
  }
  return active ?? none;
}

const none: ActiveSkills = new Map();

/** Returns the entries of a turn, whose first message of the user names the skills that are active in the branch before it. */
export function withActiveSkills(entries: readonly LogEntry[], branch: readonly SeenMessage[]): readonly LogEntry[] {
  const skills = namedSkills(activeSkills(branch));
  const at = skills.length === 0 ? -1 : entries.findIndex(({ kind, role }) => kind === "message" && role === "user");
  return entries.map((entry, index) =>
    index === at ? { ...entry, extra: { ...entry.extra, metadata: { ...entry.extra?.metadata, skills } } } : entry,
  );
}

/** Returns the names of the skills whose instructions the messages show in full. */
export function shownSkills(messages: readonly SeenMessage[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { role, content, short } of messages) {
    if (role !== "tool" || short !== null || !content.startsWith(beginning)) continue;
    const [, name] = /^<skill name="([a-z0-9-]{1,64})"/.exec(content) ?? [];
    if (name !== undefined && content.includes(closing)) names.add(name);
  }
  return names;
}

const beginning = '<skill name="';
const closing = "\n</skill>\n";

/** Returns the result of activate_skill. */
export function activationText(name: string, version: string, body: string, more: string): string {
  return `${beginning}${name}" version="${version.replaceAll(/[^\w.+-]/g, "")}">\n${body.trim()}${closing}${more}`;
}

/** Returns the result of deactivate_skill. */
export function deactivationText(name: string): string {
  return `${endOf(name)} Its instructions no longer apply.`;
}

function endOf(name: string): string {
  return `The skill ${name} has ended.`;
}

function versionIn(content: string, name: string): string | null {
  const [, found, version] = /^<skill name="([a-z0-9-]{1,64})" version="([^"\n]{0,64})">/.exec(content) ?? [];
  return found === name ? (version ?? "") : null;
}
