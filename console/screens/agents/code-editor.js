import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parseDocument, stringify } from "yaml";
import { isDark } from "../../core/theme.js";
import { completionsAt, loadSchema } from "./completion.js";

// The editor of manifests: YAML with colours and marks at the problems that the server finds. It is a module of its own, because it is
// larger than the rest of the console.

/** Returns a manifest as YAML. */
export function toYaml(manifest) {
  return stringify(manifest, { lineWidth: 100 });
}

/** Returns the manifest of a text, or its problems as `{at, text}`. */
export function fromYaml(text) {
  const document = parseDocument(text);
  if (document.errors.length > 0)
    return {
      manifest: null,
      problems: document.errors.map(({ message, pos }) => ({
        at: "",
        text: message.split("\n")[0],
        from: pos[0],
        to: pos[1],
      })),
    };
  const manifest = document.toJS({ maxAliasCount: 100 });
  if (manifest === null || typeof manifest !== "object" || Array.isArray(manifest))
    return { manifest: null, problems: [{ at: "", text: "A manifest is an object." }] };
  return { manifest, problems: [] };
}

/** Mounts an editor in a shadow root, where its style sheets need no inline style. Returns functions that mark problems and remove it. */
export function mountEditor(host, { text, label, onChange }) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const dark = isDark();
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        highlightActiveLine(),
        lintGutter(),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        autocompletion({ override: [complete], icons: false }),
        yaml(),
        syntaxHighlighting(dark ? darkColours : defaultHighlightStyle),
        EditorView.theme(theme, { dark }),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label }),
        EditorView.updateListener.of(({ docChanged, state }) => docChanged && onChange(state.doc.toString())),
      ],
    }),
  });
  return {
    mark(problems) {
      view.dispatch(
        setDiagnostics(
          view.state,
          problems.map((problem) => diagnosticOf(view.state.doc, problem)),
        ),
      );
    },
    remove: () => view.destroy(),
  };
}

/** The schema; null until a completion was asked for, or after a failure. */
let loading = null;

async function complete({ state, pos, explicit }) {
  loading ??= loadSchema().catch(() => {
    loading = null;
    return {};
  });
  const found = completionsAt(await loading, state.sliceDoc(0, pos));
  // An empty line asks nothing unless the person does.
  if (found === null || (found.from === pos && !explicit)) return null;
  return {
    from: found.from,
    options: found.options.map(({ label, kind, detail, info }) => ({
      ...{ label, detail, type: kind },
      ...(info && { info }),
      ...(kind === "property" && { apply: `${label}: ` }),
    })),
    validFor: /^[\w.-]*$/,
  };
}

/** Returns the mark of a problem: at the field that it names, or at the start of its line. */
function diagnosticOf(document, { at, text, path = [], from, to }) {
  const [start, end] = from === undefined ? rangeOf(document.toString(), path) : [from, to];
  const size = document.length;
  return {
    from: Math.min(start, size),
    to: Math.min(Math.max(end, start), size),
    severity: "error",
    message: at ? `${at} ${text}` : text,
  };
}

/** Returns the range of the deepest field of a path that the text has. */
function rangeOf(text, path) {
  const document = parseDocument(text);
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    if (node?.range) return [node.range[0], node.range[1]];
  }
  return [0, 0];
}

const theme = {
  "&": { fontSize: "0.8125rem", backgroundColor: "transparent" },
  ".cm-scroller": { fontFamily: "var(--mono)", maxHeight: "32rem", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { caretColor: "var(--text)", padding: "0.5rem 0" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16rem" },
  ".cm-completionInfo": { maxWidth: "24rem", padding: "0.5rem", whiteSpace: "normal", fontFamily: "var(--font)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
};

const darkColours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName), tags.keyword], color: "#a9a4ff" },
  { tag: [tags.string, tags.content], color: "#8fd3b6" },
  { tag: [tags.number, tags.bool, tags.null], color: "#f0b45c" },
  { tag: [tags.comment, tags.punctuation, tags.separator], color: "#a4aabb" },
]);
