import { defineTool, toolError } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { readTarget } from "../../governance/egress/target.ts";
import { text } from "../../governance/settings/setting.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import { definePlugin, type PluginToolContext } from "../plugin.ts";

// The tools of the runs that `svc chaos` starts, one per effect. Each reports its call and key to a recorder, which
// shows the real effects independent of the log.

const recorderUrl = text(
  "CHAOS_RECORDER_URL",
  "",
  "Where the tools of svc chaos tell what they did; svc chaos sets it.",
);

const parameters = Type.Object({ run: Type.Integer({ description: "The number of the run." }) });
const egress = new Egress("operator");
const silenceMs = 10_000;

/** Reports a call to the recorder; returns the status of its response. */
function post(url: string, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let status = 0;
    const headers = ["content-type", "application/json"];
    egress.dispatch(
      readTarget(url),
      { method: "POST", headers, body, silenceMs },
      {
        onRequestStart() {},
        onResponseStart(head) {
          status = head.status;
        },
        onResponseData() {},
        onResponseEnd: () => resolve(status),
        onResponseError: reject,
      },
    );
  });
}

const recorded = (name: string, effect: "read" | "idempotent" | "once") =>
  defineTool({
    name,
    description: `Tells the recorder that it was called; its effect is "${effect}".`,
    parameters,
    effect,
    risk: effect === "read" ? "reads" : "writes",
    async execute({ run }, { settings, key }: PluginToolContext) {
      const status = await post(settingOf(settings, recorderUrl), JSON.stringify({ run, tool: name, effect, key }));
      return status === 200 ? { text: `${name} ${run}` } : toolError("provider_error", `the recorder says ${status}`);
    },
  });

/** Loaded by `svc chaos` into the server that it starts. */
export const plugin = definePlugin({
  name: "chaos",
  description: "The tools of the runs that svc chaos makes.",
  settings: [recorderUrl],
  tools: [recorded("chaos_look", "read"), recorded("chaos_put", "idempotent"), recorded("chaos_note", "once")],
});
