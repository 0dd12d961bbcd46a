// header.hpp: the JSON header of a CMF file, order and unknown keys preserved (cmf.md section 5).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cortiq::cmf {

using Json = nlohmann::ordered_json;

class Header {
 public:
  /// An empty object.
  Header() : json_(Json::object()) {}
  explicit Header(Json json) : json_(std::move(json)) {}
  /// Parses and checks required keys, enums and duplicate keys. @param where  file name for messages.
  /// Throws Error{kInput}.
  [[nodiscard]] static Header parse(std::string_view text, std::string_view where);

  [[nodiscard]] const Json& json() const noexcept { return json_; }
  [[nodiscard]] Json& json() noexcept { return json_; }
  /// json()["arch"]; an empty object where there is none.
  [[nodiscard]] const Json& arch() const;
  [[nodiscard]] std::string arch_name() const;
  /// Compact UTF-8 text as it is written to a file.
  [[nodiscard]] std::string dump() const;

 private:
  Json json_;
};

}  // namespace cortiq::cmf
