import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../../core/html.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { attempt } from "../../parts/toast.js";
import { uploadImage, uploadTypes } from "./image.js";

/** The field in which a person writes. While a turn runs it steers the turn. */
export function Composer({ thread, manifest, draft, onSent, mayWrite }) {
  const field = useRef(null);
  const picker = useRef(null);
  const [text, setText] = useState("");
  const [images, setImages] = useState([]);
  const [kind, setKind] = useState("steer");
  const [isEarly, setEarly] = useState(false);
  const isBusy = thread.isBusy.value;
  useEffect(() => {
    if (isEarly && manifest) void send();
  }, [isEarly, manifest]);
  useEffect(() => {
    if (draft === null) return;
    setText(draft.text);
    field.current.focus();
  }, [draft]);
  useEffect(() => {
    const returned = thread.returned.value;
    if (returned === null) return;
    setText(returned.text);
    setImages(returned.attachments);
    thread.returned.value = null;
  }, [thread.returned.value]);
  useEffect(() => {
    const element = field.current;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, 260)}px`;
  }, [text]);

  const send = async () => {
    const said = text.trim();
    if ((said === "" && images.length === 0) || !mayWrite) return;
    if (isBusy) {
      if (
        (await attempt(
          () => thread.steer(said, kind),
          kind === "steer" ? "The agent reads it at its next step" : "Sent for the end of the turn",
        )) !== undefined
      )
        setText("");
      return;
    }
    // The list of agents is still on its way.
    if (!manifest) return setEarly(true);
    setEarly(false);
    setText("");
    setImages([]);
    onSent();
    void thread.send(said, { manifest, attachments: images });
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void send();
    } else if (event.key === "Escape" && isBusy) void attempt(() => thread.abort());
  };
  const add = async (files) => {
    for (const file of files) {
      const stored = await attempt(() => uploadImage(file));
      if (stored) setImages((old) => [...old, stored]);
    }
  };
  return html`<form
    class="composer"
    onSubmit=${(event) => {
      event.preventDefault();
      void send();
    }}
    onDragOver=${(event) => event.preventDefault()}
    onDrop=${(event) => {
      event.preventDefault();
      void add(event.dataTransfer.files);
    }}
  >
    ${
      images.length > 0
        ? html`<div class="attached">
          ${images.map(
            (image) => html`<span class="attachment"
              ><img src=${image.preview} alt=${image.filename || "Image"} />
              <button type="button" class="icon-button" aria-label=${`Remove ${image.filename || "image"}`} onClick=${() => setImages(images.filter((each) => each !== image))}><${Icon} name="cross" size=${13} /></button></span
            >`,
          )}
        </div>`
        : null
    }
    <textarea
      ref=${field}
      rows="1"
      dir="auto"
      aria-label=${isBusy ? "Message to the running turn" : "Message"}
      placeholder=${!mayWrite ? "This key may read only" : isBusy ? "Steer the agent while it works…" : "Write a message…"}
      disabled=${!mayWrite}
      value=${text}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${onKeyDown}
      onPaste=${(event) => {
        if (event.clipboardData.files.length > 0) {
          event.preventDefault();
          void add(event.clipboardData.files);
        }
      }}
    ></textarea>
    <div class="composer-tools">
      ${
        may("POST /files") && !isBusy
          ? html`<button type="button" class="ghost icon-button" aria-label="Attach an image" title="Attach an image" onClick=${() => picker.current.click()}><${Icon} name="image" /></button>
            <input
              ref=${picker}
              type="file"
              accept=${uploadTypes}
              multiple
              hidden
              onChange=${(event) => {
                void add(event.target.files);
                event.target.value = "";
              }}
            />`
          : null
      }
      ${
        isBusy
          ? html`<select aria-label="When the agent reads it" value=${kind} onChange=${(event) => setKind(event.target.value)}>
            <option value="steer">At the next step</option>
            <option value="follow_up">After this turn</option>
          </select>`
          : html`<span class="hint keys">Enter sends, Shift+Enter starts a line</span>`
      }
      <span class="spacer"></span>
      ${
        isBusy
          ? html`<button type="button" class="danger-soft" onClick=${() => attempt(() => thread.abort())}><${Icon} name="stop" size=${16} /> Stop</button>`
          : null
      }
      <button class="primary" type="submit" disabled=${!mayWrite || (text.trim() === "" && images.length === 0)}>
        <${Icon} name="send" size=${16} /> ${isBusy ? "Steer" : "Send"}
      </button>
    </div>
  </form>`;
}
