import Type from "typebox";
import { references, referencesMax, section, text } from "./fields.ts";

export const network = section("Which hosts the agent's tools may reach.", {
  allow_hosts: Type.Unsafe<string[] | null>({
    type: ["array", "null"],
    description: "Hosts, *.host or IP addresses; null is unrestricted, an empty list allows nothing.",
    items: text("A host, *.host or an IP address.", { maxLength: 255 }),
    maxItems: referencesMax,
    default: null,
  }),
  credentials: references("Ids of the operator's egress credentials.", text("An id.", { maxLength: 128 })),
});
