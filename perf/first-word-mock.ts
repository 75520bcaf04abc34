// Entry of the mock model's process for traced turns. The server is the usual mock. It also notes when a request arrives and when its
// response starts.
import { Socket } from "node:net";
import { behaviourOf } from "../test/support/mock-model/behaviours.ts";
import { startMockModel } from "../test/support/mock-model.ts";
import type { Point } from "./first-word-points.ts";
import { Marks } from "./marks.ts";
import { turnIn } from "./protocol.ts";

const [, , dir = "", ...models] = process.argv;
const marks = new Marks(dir);
const note = (turn: string, point: Point) => marks.note(turn, point);
/** The turn whose request is not answered yet: the server answers each request before it reads the next one. */
let asked: string | undefined;

process.on("disconnect", () => process.exit());
const { write } = Socket.prototype;
Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
  if (asked !== undefined) note(asked, "modelSays");
  asked = undefined;
  return (write as (...args: unknown[]) => boolean).apply(this, args);
} as typeof write;

const server = await startMockModel({ record: false });
for (const model of models) {
  const behaviour = behaviourOf(model);
  if (behaviour === undefined) throw new Error(`the mock has no model ${model}`);
  server.answer(model, (request) => {
    asked = turnIn(JSON.stringify(request.body.messages));
    if (asked !== undefined) note(asked, "modelHas");
    return typeof behaviour === "function" ? behaviour(request) : behaviour;
  });
}
process.send?.({ result: server.port });
