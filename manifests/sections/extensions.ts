import { Type } from "../../bus/type.ts";
import { defineSection } from "../fields/section.ts";

export const extensions = defineSection({
  fields: {
    extensions: Type.Unsafe<Record<string, unknown>>({
      type: "object",
      description: "Free values for plugins, a key for each.",
      default: {},
    }),
  },
});
