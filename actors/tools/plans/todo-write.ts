import { todosOf } from "../../../bus/frames/todos.ts";
import { Type } from "../../../bus/type.ts";
import { defineTool, toolError } from "../tool.ts";

const parameters = Type.Object(
  {
    todos: Type.Array(
      Type.Object(
        {
          content: Type.String({ description: "What is to be done, as an order.", minLength: 1, maxLength: 500 }),
          status: Type.Optional(
            Type.Enum(["pending", "in_progress", "completed"], {
              description: "How far it is; pending when left out. At most one item is in_progress.",
            }),
          ),
          active_form: Type.Optional(
            Type.String({ description: "What is being done, as shown while it is in progress.", maxLength: 500 }),
          ),
        },
        { additionalProperties: false },
      ),
      { description: "The whole list, in order. It replaces the one before.", maxItems: 100 },
    ),
  },
  { additionalProperties: false },
);

/** Replaces the thread's todo list. The list is stored only in the log: the newest accepted call defines it. */
export const todoWrite = defineTool({
  name: "todo_write",
  description:
    "Replaces your list of things to do, which the user sees. Use it for work of several steps: write all steps first, then call again " +
    "whenever one begins or is completed. At most 100 items, at most one of them in_progress.",
  parameters,
  effect: "idempotent",
  risk: "writes",
  needs: "thread",
  execute(args, context) {
    const todos = todosOf(args);
    const blank = todos.find((todo) => todo.content.trim() === "");
    if (blank)
      return toolError("invalid_arguments", `todos.${Number(blank.id) - 1}.content is blank; the list is unchanged`);
    if (todos.filter((todo) => todo.status === "in_progress").length > 1)
      return toolError("invalid_arguments", "more than one item is in_progress; the list is unchanged");
    context.emit("todo_updated", { todos });
    const completed = todos.filter((todo) => todo.status === "completed").length;
    return { text: `the list has ${todos.length} items, ${completed} of them completed` };
  },
});
