// recipe.hpp: --recipe FILE.json: options from a file, put between the words of the command line
// before it is parsed, so that every check of an option holds for them too. Form:
//   {"options": {"codec": "q2tp", "tokens": 65536, "calib": ["a.txt=2", "b.txt"], "act-order": true},
//    "tensors": [{"layers": [0, "30-31"], "pattern": "mlp.*", "codec": "q8_2f"},
//                {"pattern": "*.gate_proj.weight", "rule": "cortiq"}]}
// Option names have no dashes in front. An entry with layers holds for names model.layers.L.PATTERN.
// What the command line names replaces an option of the recipe; its patterns come before those of
// the recipe (the first match wins).
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace cortiq::app {

/// --recipe and --recipe-out of a command.
struct RecipeArguments {
  std::filesystem::path input;
  std::filesystem::path output;
};
void add_recipe_options(CLI::App& command, RecipeArguments& arguments);

/// The words of the command line with those of its recipe, if it names one. Throws Error{kUsage}
/// for an unknown option or a wrong form, naming file and place; {kIo}, {kInput} of the file.
[[nodiscard]] std::vector<std::string> expand_recipe(const CLI::App& app,
                                                     std::vector<std::string> words);

/// Refuses to write over an input, and options whose text is no UTF-8, which JSON cannot hold. Throws Error{kUsage} or
/// {kIo}.
void check_recipe_output(const CLI::App& command, const RecipeArguments& arguments,
                         const std::vector<std::filesystem::path>& inputs);
/// Writes the options that the command got, by line or recipe, as a recipe. Input, output, reports
/// and what concerns one run only are left out. @param allocated  NAME=CODEC of every matrix, chosen for a target of
/// bits: they stand in the recipe instead of the target.
void write_recipe(const CLI::App& command, const RecipeArguments& arguments,
                  const std::vector<std::string>& allocated = {});

}  // namespace cortiq::app
