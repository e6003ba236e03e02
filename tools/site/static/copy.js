"use strict";

/* A button on each block of code copies it. Of a block with a command and its output, it copies the command. */

const copied = (block) => {
  const text = block.querySelector("pre").textContent;
  if (!block.parentElement.classList.contains("highlight-console")) return text;
  const commands = text.split("\n").filter((line) => line.startsWith("$ "));
  return commands.map((line) => line.slice(2)).join("\n") + "\n";
};

const put = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // a page of a folder, or without TLS, has no clipboard
  area.value = text;
  document.body.appendChild(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await put(copied(block));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.appendChild(button);
  }
});
