import htm from "htm";
import { h } from "preact";

/** Markup as a template: elements without a build. Values are text, never markup. */
export const html = htm.bind(h);
