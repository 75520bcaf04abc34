import { Type } from "../../bus/type.ts";
import { flag, integer, section, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

export const proceduralMemory = defineSection({
  fields: {
    procedural_memory: unbuilt(
      section("Stores how tasks were done.", {
        enabled: flag("Switches it on."),
        top_k: integer("Procedures that are recalled.", { minimum: 1, default: 3 }),
        embedding_model: Type.String({ description: "Embedding model.", minLength: 1, default: "bge-base-en-v1.5" }),
      }),
    ),
  },
});
