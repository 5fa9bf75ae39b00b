// Keeps a person's score of a segment and turns to the next one.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector("[data-label]");
  if (!box) return;
  const token = box.querySelector("input");

  async function answer(key) {
    const reply = await fetch(`${document.documentElement.dataset.base}/label/${box.dataset.label}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token.value}` },
      body: JSON.stringify({ key }),
    });
    if (reply.ok) return location.assign(box.dataset.next);
    box.querySelector("[data-said]").textContent =
      reply.status === 401 ? "Not kept: the token is missing or wrong." : `Not kept: the dashboard answered ${reply.status}.`;
  }

  if (token) {
    // `questloop judge label` opens the page with its token behind the #, which no server is sent.
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
      sessionStorage.setItem("token", given);
      history.replaceState(null, "", location.pathname + location.search);
    }
    token.value = sessionStorage.getItem("token") || "";
    token.addEventListener("input", () => sessionStorage.setItem("token", token.value));
    for (const button of box.querySelectorAll("button")) button.addEventListener("click", () => answer(Number(button.value)));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === token) return;
    if (token && /^[0-9]$/.test(event.key)) answer(Number(event.key));
    if (event.key === "ArrowLeft") location.assign(box.dataset.before);
    if (event.key === "ArrowRight") location.assign(box.dataset.next);
  });
});
