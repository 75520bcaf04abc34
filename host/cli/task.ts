import { UsageError } from "../../plugins/command.ts";
import { type Command, failed } from "./command.ts";
import { askServer, serverUrl, urlOption } from "./server-call.ts";

/** `svc task run NAME`: makes a running server run one of its periodic tasks now. */
export const taskCommand: Command = {
  summary: "Run a periodic task of a server now; the key in SVC_KEY needs the scope tasks:run.",
  options: urlOption,
  positionals: ["run", "NAME"],
  words: ["run"],
  async run(args, { environment }) {
    const [action, name = ""] = args.positionals;
    if (action !== "run") throw new UsageError(`svc task takes run, not ${JSON.stringify(action)}.`);
    if (!/^[A-Za-z0-9_.-]{1,100}$/.test(name))
      throw new UsageError("NAME is the name of a task, such as run_scheduled_jobs.");
    const url = `${serverUrl(args, environment)}/tasks/${name}/run`;
    const { status, body } = await askServer("POST", url, environment.SVC_KEY);
    if (status === 200) return { code: 0, json: { ok: true, task: name }, text: `${name}: done` };
    if (status === 404) return failed(1, "not_found", `The server has no task ${name}.`);
    return failed(1, "refused", `The server answered ${status}: ${body.slice(0, 500)}`);
  },
};
