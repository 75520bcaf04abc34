import { A2aStream } from "../../bus/frames/a2a.ts";
import { isTerminal, statusUpdate, streamEvent, type TaskState } from "../../bus/frames/a2a-objects.ts";
import type { A2aCall } from "../../bus/protocol/run.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { HttpContext } from "../context.ts";
import type { Reply } from "../exchange/reply.ts";
import { channelOf, type EventStream } from "../exchange/sse.ts";
import { RunFollower } from "../streams/run-follower.ts";
import type { StartedTurn, TurnStream } from "../streams/turns.ts";
import { finalOf, findTask, readTask, type StoredTask, statusOf } from "./task.ts";

// Streams of tasks. The stream that starts a task gets the text while the model writes it. A later stream of the same task, and every
// stream of a durable one, gets the text of each step from the log. Both end with the state that the store has.

/** The call that the events of a stream answer. */
type Answered = Pick<A2aCall, "version" | "rpc_id">;

/** Returns the stream of a task that a turn has just started. */
export function streamOfTurn(context: HttpContext, store: TenantStore, call: Answered, turn: StartedTurn): Reply {
  return {
    kind: "stream",
    open(stream) {
      endQuietly(stream);
      turn.streamTo(withStatus(context, store, turn.run_id, call, stream));
    },
  };
}

/** Returns the stream of a stored task: the task as it is now, then its changes until it ends. */
export async function streamOfTask(
  context: HttpContext,
  store: TenantStore,
  call: Answered,
  found: StoredTask,
  requestId: string,
): Promise<Reply> {
  const task = await readTask(store, found);
  return {
    kind: "stream",
    open(stream) {
      const { run, thread } = found;
      const client = channelOf(stream);
      const closing = withStatus(context, store, run.run_id, call, stream);
      const output = new A2aStream(
        {
          get writable() {
            return client.writable;
          },
          onWritable: (work) => client.onWritable(work),
          send: (text, last) => (last ? closing.end(text) : stream.write(text)),
        },
        call,
        task,
        requestId,
      );
      let told: TaskState = task.status.state;
      const follower = new RunFollower(context, {
        store,
        suffix: thread.suffix,
        firstSeq: run.last_seq === null ? thread.next_seq : run.last_seq + 1,
        async find() {
          const now = await findTask(store, run.run_id);
          const status = await statusOf(store, now.run);
          if (status.state !== told && !isTerminal(status.state))
            stream.write(streamEvent(call, statusUpdate(call.version, { ...task, status })));
          told = status.state;
          return { ...now, final: isTerminal(told) ? await finalOf(store, now.run) : null, failure: "" };
        },
        output,
        tellsBegin: false,
      });
      stream.onClose(() => follower.close());
      endQuietly(stream);
    },
  };
}

/** Adds the state that the store has to the end of a stream, if the task has ended. */
function withStatus(
  { log }: HttpContext,
  store: TenantStore,
  taskId: string,
  call: Answered,
  stream: EventStream,
): TurnStream {
  const end = async (): Promise<void> => {
    let text = "";
    try {
      const task = stream.closed ? null : await readTask(store, await findTask(store, taskId), 0);
      if (task !== null && isTerminal(task.status.state)) text = streamEvent(call, statusUpdate(call.version, task));
    } catch (error) {
      log.warn({ err: error, run_id: taskId }, "the state of an ended task could not be read");
    }
    stream.end(text);
  };
  return {
    onClose: (work) => stream.onClose(work),
    write: (text) => stream.write(text),
    end(text) {
      stream.write(text);
      void end();
    },
  };
}

/** Ends a stream without a status event when the server stops: the task continues, and its caller can subscribe again. */
function endQuietly(stream: EventStream): void {
  stream.onShutdown(() => stream.end(""));
}
