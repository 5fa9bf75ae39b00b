// Plays the stored pictures of a segment, and shows what was so at each.
"use strict";

const PICTURES_A_SECOND = 8;

document.addEventListener("DOMContentLoaded", () => {
  const player = document.querySelector(".player");
  if (!player) return;
  const frames = JSON.parse(player.querySelector("script").textContent);
  const image = player.querySelector("img");
  const slider = player.querySelector("input");
  const button = player.querySelector("[data-play]");
  let timer = null;

  function show() {
    const frame = frames[Number(slider.value)];
    image.src = `${player.dataset.base}${frame.step}.png`;
    image.alt = `The screen at step ${frame.step}`;
    slider.setAttribute("aria-valuetext", `step ${frame.step}, ${frame.room}`);
    for (const fact of player.querySelectorAll("[data-fact]")) fact.textContent = frame[fact.dataset.fact];
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  }

  button.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === frames.length - 1) slider.value = 0;
    button.textContent = "Stop";
    timer = setInterval(() => {
      if (Number(slider.value) === frames.length - 1) return stop();
      slider.value = Number(slider.value) + 1;
      show();
    }, 1000 / PICTURES_A_SECOND);
  });
  slider.addEventListener("input", () => { stop(); show(); });
});
