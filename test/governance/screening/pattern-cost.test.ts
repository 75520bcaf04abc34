// A process of its own: it measures the processor time of its process.
// The search of a pattern is linear in its text. A text that repeats the words of the pattern shows a repetition that is not.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { defaultFinding, isForkBomb } from "../../../governance/commands/default-rules.ts";
import { heuristics } from "../../../governance/screening/heuristics.ts";

const chars = 16_384;
/** The bound is twenty times the duration of the slowest search. */
const maxMs = 100;

const common = [" ", "\n", "a", "a ", "#", "-", "=", "<!--ai ", "copy ", "/..", "@", "[", "(", "$", "you ", "the "];

/** Texts that repeat each word and each phrase of a pattern. */
function hostileTexts(pattern: RegExp): readonly string[] {
  const source = pattern.source.replaceAll("\\b", " ");
  const words = source.match(/[a-z]{2,}|[^\0-\x7f]+/g) ?? [];
  const phrases = source.match(/[a-z]{2,}(?: [a-z]{2,})+/g) ?? [];
  return [...new Set([...common, ...[...words, ...phrases].flatMap((word) => [word, `${word} `])])].map(pumped);
}

function pumped(unit: string): string {
  return unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars);
}

/** Fails if a search takes too long. It is measured again once: the collector may have run during the first. */
function assertFast(search: () => unknown, text: string): void {
  const ms = timeOf(search);
  assert.ok(ms < maxMs || timeOf(search) < maxMs, `${ms} ms for ${JSON.stringify(text.slice(0, 40))} repeated`);
}

function timeOf(search: () => unknown): number {
  const from = process.cpuUsage();
  search();
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
}

describe("heuristics of content screening", () => {
  for (const { id, pattern } of heuristics)
    test(`${id} takes linear time`, () => {
      for (const text of hostileTexts(pattern)) assertFast(() => pattern.test(text), text);
    });

  test("no group is repeated without bound", () => {
    const open = heuristics.filter(({ pattern }) => /(?<!\\)[)\]}][*+]|(?<!\\)\{[0-9]+,\}/.test(pattern.source));
    assert.deepEqual(
      open.map(({ id }) => id),
      [],
    );
  });
});

describe("built-in rules of command screening", () => {
  const names =
    "rm dd truncate chmod setcap kill find bash python git curl wget scp rsync crontab systemctl sysctl tee sed docker kubectl terraform aws npm pip psql history export tar awk vim gdb".split(
      " ",
    );
  const units = [
    ...common,
    ...[
      "delete from ",
      "delete from a",
      "copy program",
      "drop ",
      "drop  ",
      "truncat ",
      "/",
      "//",
      "../",
      ".git/",
      "~/.",
    ],
    ...[
      "/proc/",
      "/proc/a/",
      "/home/",
      "/etc/",
      ".env",
      ".env.",
      "a@",
      "a:",
      "::",
      "+s",
      "777",
      "$A",
      "${A_",
      "system ",
    ],
    ...["eval ", "| ", ": ", "x(){", "a() {a|", "a|a ", "rm rm ", "install ", "cp sync ", "--data", "git+", "of=/dev/"],
  ];
  for (const name of names)
    test(`rules for ${name} take linear time`, () => {
      for (const unit of units)
        for (const text of [
          pumped(unit),
          `${pumped(unit)}\n!`,
          `delete from a${pumped(unit)}!`,
          `-c ${pumped(unit)}`,
        ]) {
          const args = ["-r", "-c", text];
          const program = { ...{ name, args, variables: [text], writes: [text] }, ...{ from: ["curl"], under: [] } };
          assertFast(() => defaultFinding(program), text);
        }
    });

  test("the search of a fork bomb takes linear time", () => {
    for (const unit of units) assertFast(() => isForkBomb(pumped(unit)), unit);
  });

  test("blanks and a long statement do not hide a deletion", () => {
    const ask = (sql: string) =>
      defaultFinding({ name: "psql", args: ["-c", sql], variables: [], writes: [], from: [], under: [] })?.reason;
    for (const sql of [
      "DELETE \n FROM   users  ;  ",
      "drop\t\ttable users",
      `copy users (${"a, ".repeat(400)}b) to program 'sh'`,
      "COPY users\nFROM PROGRAM 'sh'",
    ])
      assert.equal(ask(sql), "deletes data of a database", sql);
    for (const sql of ["delete from users where id = 1", "select program from copies", "copy users to stdout"])
      assert.equal(ask(sql), undefined, sql);
  });
});
