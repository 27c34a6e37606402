"""The shapes a question and its answer take. Attrs classes only; nothing here touches a kernel or a file."""
