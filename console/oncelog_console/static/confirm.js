// What destroys has its button off until its name is typed. The server asks for the name as well.
// @ts-check

for (const field of document.querySelectorAll("input[data-typed]")) {
  if (!(field instanceof HTMLInputElement)) continue;
  const button = field.form?.querySelector("button");
  if (!(button instanceof HTMLButtonElement)) continue;
  const judge = () => { button.disabled = field.value !== field.dataset.typed; };
  field.addEventListener("input", judge);
  judge();
}
