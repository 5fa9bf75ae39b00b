// The screens of a few agents while they train.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector("[data-screens]");
  if (!box) return;
  const list = box.querySelector("ul");
  let shown = null;

  document.addEventListener("questloop:progress", async (event) => {
    const training = event.detail && event.detail.training;
    box.hidden = !training || !list.children.length;
    if (!training || document.hidden) return;
    const answer = await fetch(`${box.dataset.screens}.json`);
    if (!answer.ok) return;
    const news = await answer.json();
    if (news.step === shown) return;
    shown = news.step;
    const agents = news.agents.filter((each) => each.screen);
    while (list.children.length > agents.length) list.lastChild.remove();
    agents.forEach((each, at) => {
      if (!list.children[at]) {
        const item = document.createElement("li");
        const image = document.createElement("img");
        image.className = "pixel";
        [image.width, image.height] = [160, 144];
        item.append(image);
        list.append(item);
      }
      const image = list.children[at].firstChild;
      image.src = `${box.dataset.screens}/${each.agent}.png?step=${news.step}`;
      image.alt = `The screen of agent ${each.agent}`;
    });
    box.hidden = !agents.length;
  });
});
