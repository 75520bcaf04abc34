import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SettingsError } from "../../../governance/settings/settings-error.ts";
import { type Command, failed } from "../../../host/cli/command.ts";
import { type Commands, dispatch } from "../../../host/cli/dispatch.ts";
import { versionCommand } from "../../../host/cli/version.ts";
import { silentTalk } from "../../support/silent-talk.ts";

const io = {
  env: systemEnv(),
  environment: {},
  stop: new AbortController().signal,
  terminal: null,
  talk: silentTalk(),
};

const echo: Command = {
  summary: "Say it again.",
  options: {
    loud: { type: "boolean", short: "l", help: "In capitals." },
    times: { type: "string", value: "N", help: "How often." },
  },
  positionals: ["WORD", "[OTHER]"],
  run: async ({ options, positionals }) => ({
    code: 0,
    json: { ok: true, options, positionals },
    text: positionals.join(" "),
  }),
};
const broken = (error: Error): Command => ({
  ...echo,
  positionals: [],
  run: async () => {
    throw error;
  },
});
const commands: Commands = {
  echo: async () => echo,
  version: async () => versionCommand("1.2.3"),
  crash: async () => broken(new Error("it broke")),
  settings: async () => broken(new SettingsError([{ name: "SVC_PORT", reason: "must be an integer" }])),
  refuse: async () => ({ ...echo, positionals: [], run: async () => failed(2, "refused", "No.") }),
  unload: () => Promise.reject(new Error("no such module")),
};

const loadable = Object.fromEntries(Object.entries(commands).filter(([name]) => name !== "unload"));

function help(...argv: string[]) {
  return dispatch(argv, loadable, io);
}

function run(...argv: string[]) {
  return dispatch(argv, commands, io);
}

describe("a command", () => {
  test("gets its options and arguments and prints its text", async () => {
    assert.deepEqual(await run("echo", "hi", "there"), { code: 0, stdout: "hi there\n", stderr: "" });
  });

  test("prints one JSON object with --json, wherever that option is", async () => {
    const expected = { ok: true, options: { loud: true, times: "3" }, positionals: ["hi"] };

    for (const argv of [
      ["--json", "echo", "hi", "-l", "--times", "3"],
      ["echo", "--times=3", "hi", "--loud", "--json"],
    ]) {
      const { code, stdout, stderr } = await run(...argv);
      assert.deepEqual([code, JSON.parse(stdout), stderr], [0, expected, ""]);
    }
  });

  test("that refuses prints on stderr, and with --json on stdout", async () => {
    assert.deepEqual(await run("refuse"), { code: 2, stdout: "", stderr: "No.\n" });
    assert.deepEqual(await run("refuse", "--json"), {
      code: 2,
      stdout: '{"ok":false,"error":"refused","message":"No."}\n',
      stderr: "",
    });
  });

  test("that throws is exit 1 with its message", async () => {
    assert.deepEqual(await run("crash"), { code: 1, stdout: "", stderr: "it broke\n" });
    assert.deepEqual(await run("unload"), { code: 1, stdout: "", stderr: "no such module\n" });
  });

  test("whose package is not installed prints the command that installs it", async () => {
    const missing = Object.assign(new Error("Cannot find package 'yaml' imported from /x.ts"), {
      code: "ERR_MODULE_NOT_FOUND",
    });

    const { code, stderr } = await dispatch(["read"], { read: () => Promise.reject(missing) }, io);

    assert.deepEqual([code, stderr], [1, `${missing.message}\nRun "npm ci" first.\n`]);
  });

  test("that finds bad settings is exit 1 and names them", async () => {
    assert.deepEqual(await run("settings"), { code: 1, stdout: "", stderr: "SVC_PORT must be an integer\n" });
    assert.deepEqual(JSON.parse((await run("settings", "--json")).stdout), {
      ok: false,
      error: "invalid_settings",
      issues: [{ name: "SVC_PORT", reason: "must be an integer" }],
    });
  });
});

describe("a usage error is exit 2", () => {
  const wrong: [string, string[], RegExp][] = [
    ["an unknown command", ["nothing"], /no command "nothing"/],
    ["a name that every object has", ["constructor"], /no command "constructor"/],
    ["an unknown option", ["echo", "hi", "--colour"], /--colour/],
    ["an option without its value", ["echo", "hi", "--times"], /--times/],
    ["a value for a switch", ["echo", "hi", "--loud=yes"], /--loud/],
    ["a missing argument", ["echo"], /WORD is missing/],
    [
      "an argument too many",
      ["echo", "a", "b", "c"],
      /^Unexpected argument "c": svc echo takes WORD \[OTHER\]\.\nRun "svc help echo"/,
    ],
    ["an argument where there is none to give", ["version", "c"], /"c": svc version takes no arguments\./],
    ["help for an unknown command", ["help", "nothing"], /no command "nothing"/],
  ];
  for (const [name, argv, message] of wrong) {
    test(name, async () => {
      const { code, stdout, stderr } = await run(...argv);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, message);

      const { error, message: told } = JSON.parse((await run(...argv, "--json")).stdout);
      assert.equal(error, "usage");
      assert.match(told, message);
    });
  }

  test("no command at all, which shows the help", async () => {
    const { code, stderr } = await help();

    assert.equal(code, 2);
    assert.match(stderr, /Usage: svc <command>/);
  });
});

describe("help and version", () => {
  test("help lists every command with its line", async () => {
    for (const argv of [["help"], ["--help"], ["-h"]]) {
      const { code, stdout } = await help(...argv);
      assert.equal(code, 0);
      assert.match(stdout, /echo WORD \[OTHER\] +Say it again\./);
      for (const name of Object.keys(loadable)) assert.ok(stdout.includes(`\n  ${name}`), name);
    }
  });

  test("help of a command shows its options", async () => {
    for (const argv of [
      ["help", "echo"],
      ["echo", "--help"],
      ["echo", "-h"],
    ]) {
      const { code, stdout } = await help(...argv);
      assert.equal(code, 0);
      assert.match(stdout, /Usage: svc echo WORD \[OTHER\] \[options\]/);
      assert.match(stdout, /-l, --loud +In capitals\./);
      assert.match(stdout, /--times N +How often\./);
    }
  });

  test("help of a command names the allowed values of its first argument", async () => {
    const words = ["list", "show"];
    const some: Commands = {
      look: async () => ({ ...echo, positionals: ["[ACTION]", "[ID]"], words }),
      act: async () => ({ ...echo, positionals: ["ACTION"], words }),
      task: async () => ({ ...echo, positionals: ["run", "NAME"], words: ["run"] }),
    };
    const pageOf = async (name: string) => (await dispatch(["help", name], some, io)).stdout;

    assert.match(await pageOf("look"), /^Say it again\.\nACTION is one of list, show \(list\)\.$/m);
    assert.match(await pageOf("act"), /^Say it again\.\nACTION is one of list, show\.$/m);
    assert.doesNotMatch(await pageOf("task"), / is one of /);
    assert.deepEqual(JSON.parse((await dispatch(["help", "look", "--json"], some, io)).stdout).words, words);
  });

  test("help wraps its right column at the terminal's width, and not in a pipe", async () => {
    const long = "Look at what there is, and say of each thing what became of it since it was last looked at.";
    const options = { deep: { type: "boolean" as const, help: long } };
    const some: Commands = { look: async () => ({ ...echo, summary: long, options }) };
    const on = (columns: number, argv: string[]) =>
      dispatch(argv, some, { ...io, terminal: { columns, colours: false } }).then(({ stdout }) => stdout);

    const [page, all, whole] = [
      await on(50, ["help", "look"]),
      await on(60, ["help"]),
      await dispatch(["help"], some, io),
    ];

    assert.match(
      page,
      /\n\nLook at what there is, and say of each thing what\nbecame of it since it was last looked at\.\n\n/,
    );
    assert.match(page, /\n {2}--deep {2}Look at what there is, and say of each\n {10}thing what became of it/);
    assert.match(all, /\n {2}look WORD \[OTHER\] {2}Look at what there is, and say of each\n {21}thing/);
    assert.ok(whole.stdout.includes(long));
    // There is no room for a second column.
    assert.ok((await on(30, ["help"])).includes(long));
  });

  test("version prints the version", async () => {
    for (const argv of [["version"], ["--version"], ["-V"], ["-v"]])
      assert.equal((await run(...argv)).stdout, "1.2.3\n");
    assert.deepEqual(JSON.parse((await run("version", "--json")).stdout), { ok: true, version: "1.2.3" });
  });
});
