import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { html } from "../../core/html.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";

/** Types that a browser shows as a picture and never runs. */
const shownTypes = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Types that POST /files takes. */
export const uploadTypes = [...shownTypes].join(",");

/** An image that this server stores. Images of other servers are named and not loaded. */
export function StoredImage({ image }) {
  const [address, setAddress] = useState(image.preview ?? null);
  const [problem, setProblem] = useState("");
  const { url = "", media_type = "", filename = "" } = image;
  const id = image.file_id ?? (url.startsWith("svc-file://") ? url.slice("svc-file://".length) : null);
  useEffect(() => {
    if (address !== null || id === null) return;
    if (!may("GET /files/{file_id}")) {
      setProblem("needs files:read");
      return;
    }
    let made = null;
    let isGone = false;
    call("GET /files/{file_id}", { file_id: id }).then(
      ({ data }) => {
        if (isGone || !shownTypes.has(media_type)) return;
        made = URL.createObjectURL(new Blob([bytesOf(data)], { type: media_type }));
        setAddress(made);
      },
      (error) => setProblem(error.message),
    );
    return () => {
      isGone = true;
      if (made !== null) URL.revokeObjectURL(made);
    };
  }, [id]);
  const isInline = /^data:image\/(?:png|jpeg|gif|webp);base64,/.test(url);
  if (address !== null || isInline)
    return html`<img class="picture" src=${address ?? url} alt=${filename || "Image"} />`;
  return html`<p class="step-note"><${Icon} name="image" size=${15} /> <span class="break">${filename || id || url}</span> ${problem}</p>`;
}

/** Stores an image, and returns what a message refers to. */
export async function uploadImage(file) {
  const data = await base64Of(file);
  const stored = await call("POST /files", { data, media_type: file.type, filename: file.name });
  return { ...stored, preview: URL.createObjectURL(file) };
}

function bytesOf(data) {
  return Uint8Array.from(atob(data.replace(/^data:[^,]*,/, "")), (sign) => sign.charCodeAt(0));
}

function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,/, ""));
    reader.onerror = () => reject(new Error("The file could not be read."));
    reader.readAsDataURL(file);
  });
}
