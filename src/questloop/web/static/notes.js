// Keeps a person's notes about the run.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector("[data-notes]");
  const text = box && box.querySelector("textarea");
  if (!text) return;
  const token = box.querySelector("input");
  const said = box.querySelector("[data-said]");
  token.value = sessionStorage.getItem("token") || "";
  token.addEventListener("input", () => sessionStorage.setItem("token", token.value));
  text.addEventListener("input", () => { said.textContent = "not kept yet"; });
  box.querySelector("button").addEventListener("click", async () => {
    const reply = await fetch(box.dataset.notes, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token.value}` },
      body: JSON.stringify({ text: text.value }),
    });
    said.textContent = reply.ok ? "Kept." : reply.status === 401 ? "Not kept: the token is missing or wrong." : `Not kept: the dashboard answered ${reply.status}.`;
  });
});
