// What the report and the dashboard's pages share: a table or strip that is wider than its place says that it
// scrolls, and a film has its controls below its picture, not on it.
"use strict";

function tellScrolling() {
  for (const box of document.querySelectorAll(".scroll")) {
    const wide = box.scrollWidth > box.clientWidth + 1;
    const before = box.previousElementSibling;
    const said = before && before.classList.contains("sideways") ? before : null;
    if (wide && !said) {
      const hint = document.createElement("p");
      hint.className = "soft sideways";
      hint.textContent = "scrolls sideways \u2192";
      box.before(hint);
    } else if (!wide && said) said.remove();
  }
}

function giveRoom(film) {
  const tell = () => film.style.setProperty("--high", film.videoHeight / film.videoWidth);
  if (film.readyState) tell();
  else film.addEventListener("loadedmetadata", tell);
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".movie video").forEach(giveRoom));
addEventListener("load", tellScrolling);
addEventListener("resize", tellScrolling);
document.addEventListener("questloop:drawn", tellScrolling);
document.addEventListener("toggle", tellScrolling, true); // a table inside what was folded
