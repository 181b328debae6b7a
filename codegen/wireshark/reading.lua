-- Reading ------------------------------------------------------------------------------------
-- A reader: `tvb`, the next byte `at`, the end `stop`, where the message starts `from`, and the
-- names of the fields it is in.

local function where(reader)
  return (table.concat(reader.names, "."):gsub("%.%[", "["))
end

-- Say what is wrong with the bytes from `at` on.
local function complain(reader, kind, class, detail, at)
  local path = where(reader)
  local text = string.format("%s at byte %d: %s [%s]", path == "" and "message" or path, at - reader.from, detail, class)
  local range = reader.tvb(math.min(at, reader.tvb:len()), math.max(0, math.min(1, reader.tvb:len() - at)))
  reader.root:add(F.error, range, text):set_generated():add_proto_expert_info(kind, text)
end

-- What cannot be read on from, and what can.
local function fail(reader, class, detail, at)
  complain(reader, malformed, class, detail, at)
  error(reader, 0)
end
local function warn(reader, class, detail, at)
  complain(reader, irregular, class, detail, at)
end

local function need(reader, count, what)
  if reader.stop - reader.at < count then
    fail(reader, "truncated", string.format("%s takes %d bytes, %d are left", what, count, reader.stop - reader.at), reader.at)
  end
end

local function uvarint(reader)
  local start, value = reader.at, 0
  for step = 0, 4 do
    if reader.at >= reader.stop then
      fail(reader, step == 0 and "truncated" or "varint_truncated", "the input ends inside an unsigned varint", start)
    end
    local byte = reader.tvb(reader.at, 1):uint()
    reader.at = reader.at + 1
    value = value + byte % 128 * 2 ^ (7 * step)
    if byte < 128 then
      if byte == 0 and step > 0 then
        warn(reader, "non_minimal_varint", "a varint is written in more bytes than needed", start)
      end
      if value > 0x7fffffff then fail(reader, "varint_overflow", "a varint is more than 2147483647", start) end
      return math.floor(value)
    end
  end
  fail(reader, "varint_overflow", "a varint takes at most 5 bytes", start)
end

-- A length or count; nil is null.
local function length_of(reader, field, width)
  local start, length = reader.at, nil
  if field.compact then
    length = uvarint(reader) - 1
  else
    need(reader, width, "the length")
    length = reader.tvb(start, width):int()
    reader.at = start + width
  end
  if length < -1 then fail(reader, "negative_length", "length " .. length .. " is negative", start) end
  if length < 0 then
    if not field.nullable then fail(reader, "null_for_non_nullable", "null, but not nullable", start) end
    return nil
  end
  return length
end

local function is_utf8(text)
  if not text:find("[\128-\255]") then return true end
  local at, size = 1, #text
  while at <= size do
    local a, b = text:byte(at, at + 1)
    local more = a < 0x80 and 0 or a < 0xc2 and -1 or a < 0xe0 and 1 or a < 0xf0 and 2 or a < 0xf5 and 3 or -1
    if more < 0 or at + more > size then return false end
    if (a == 0xe0 and b < 0xa0) or (a == 0xed and b > 0x9f) or (a == 0xf0 and b < 0x90) or (a == 0xf4 and b > 0x8f) then
      return false
    end
    for step = 1, more do
      local byte = text:byte(at + step)
      if byte < 0x80 or byte > 0xbf then return false end
    end
    at = at + more + 1
  end
  return true
end

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
local function base64(raw)
  local out = {}
  for at = 1, #raw, 3 do
    local a, b, c = raw:byte(at, at + 2)
    local number = a * 65536 + (b or 0) * 256 + (c or 0)
    for step = 0, (c and 3 or b and 2 or 1) do
      local letter = math.floor(number / 64 ^ (3 - step)) % 64
      out[#out + 1] = LETTERS:sub(letter + 1, letter + 1)
    end
  end
  return table.concat(out)
end

local function add_null(tree, field, path, range, value)
  local item
  if value then
    item = tree:add(F[path], range, value)
  else
    item = tree:add(F[path], range(0, 0)) -- Of bytes; the length before them is not one of them.
  end
  item:set_text(field.name .. ": null")
  item:add(F.null, range):set_generated()
  return item
end

-- The wire types -----------------------------------------------------------------------------

local WIDTHS = {
  bool = 1, int8 = 1, int16 = 2, uint16 = 2, int32 = 4, uint32 = 4, int64 = 8, float64 = 8, uuid = 16,
}
local read_struct, read_batches -- below

local function read_fixed(reader, tree, wire, path)
  local width, start = WIDTHS[wire], reader.at
  need(reader, width, wire)
  local range = reader.tvb(start, width)
  reader.at = start + width
  if wire == "uuid" then
    local text = base64(range:raw())
    tree:add(F[path], range, text)
    return text
  end
  tree:add(F[path], range)
  if wire == "bool" and range:uint() > 1 then
    warn(reader, "invalid_boolean", "a bool is 0 or 1, not " .. range:uint(), start)
  end
end

local function read_variable(reader, tree, field, path)
  local start, wire = reader.at, field.wire
  local length = length_of(reader, field, wire == "string" and 2 or 4)
  if not length then
    add_null(tree, field, path, reader.tvb(start, reader.at - start), wire == "string" and "" or nil)
    return nil
  end
  if wire == "string" and length > 0x7fff then
    fail(reader, "length_too_long", "a string is at most 32767 bytes, not " .. length, start)
  end
  local left = reader.stop - reader.at
  if length > left then
    fail(reader, "length_exceeds_input", "length " .. length .. ", but " .. left .. " bytes are left", start)
  end
  local body = reader.at
  reader.at = body + length
  local whole = reader.tvb(start, reader.at - start)
  if wire == "string" then
    local text = reader.tvb(body, length):raw()
    if not is_utf8(text) then
      tree:add(F[path], whole, "(not UTF-8)")
      warn(reader, "invalid_utf8", "the text is not UTF-8", start)
      return nil
    end
    tree:add(F[path], whole, (text:gsub("%z", "\226\144\128"))) -- Wireshark would end the text there.
    return text
  end
  local item = tree:add(F[path], reader.tvb(body, length)) -- Without the length: its value is its bytes.
  if wire == "records" then
    item:set_text(field.name .. ": " .. length .. " bytes")
    read_batches(reader, item, body, reader.at)
  end
end

local function read_array(reader, tree, field, path)
  local start = reader.at
  local count = length_of(reader, field, 4)
  local range = reader.tvb(start, reader.at - start)
  if not count then
    add_null(tree, field, path .. ".length", range, -1)
    return
  end
  local branch = tree:add(F[path .. ".length"], range, count)
  branch:set_text(field.name .. ": " .. count .. (count == 1 and " element" or " elements"))
  local left = reader.stop - reader.at
  if count > left then
    fail(reader, "length_exceeds_input", count .. " elements, but " .. left .. " bytes are left", start)
  end
  local element = field.element
  local inner = type(element) == "string" and {
    name = field.name, wire = element:gsub("^compact_", ""), compact = element:find("^compact_") ~= nil, nullable = false,
  }
  for index = 0, count - 1 do
    reader.names[#reader.names + 1] = "[" .. index .. "]"
    if inner and WIDTHS[inner.wire] then
      read_fixed(reader, branch, inner.wire, path)
    elseif inner then
      read_variable(reader, branch, inner, path)
    else
      local from = reader.at
      local item = branch:add(F[path .. ".element"], reader.tvb(from, reader.stop - from))
      item:set_text(field.name .. "[" .. index .. "]")
      read_struct(reader, item, element, path)
      item:set_len(reader.at - from)
    end
    table.remove(reader.names)
  end
  branch:set_len(reader.at - start)
end

-- Whether a nullable struct is there.
local function read_marker(reader, tree, field, path, in_tag)
  local start, marker = reader.at, nil
  if in_tag then
    marker = uvarint(reader)
  else
    need(reader, 1, "a struct marker")
    marker = reader.tvb(start, 1):int()
    reader.at = start + 1
  end
  local null = in_tag and 0 or -1
  if marker ~= null and marker ~= 1 then
    warn(reader, "invalid_struct_marker", "a struct marker is " .. null .. " (null) or 1 (present), not " .. marker, start)
  end
  local present = in_tag and marker > 0 or not in_tag and marker >= 0
  local range = reader.tvb(start, reader.at - start)
  tree:add(F.marker, range, marker):set_text(field.name .. (present and ": present" or ": null"))
  return present
end

local function read_value(reader, tree, field, path, in_tag)
  if WIDTHS[field.wire] then return read_fixed(reader, tree, field.wire, path) end
  if field.wire == "array" then return read_array(reader, tree, field, path) end
  if field.wire ~= "struct" then return read_variable(reader, tree, field, path) end
  if field.nullable and not read_marker(reader, tree, field, path, in_tag) then return end
  local start = reader.at
  local item = tree:add(F[path], reader.tvb(start, reader.stop - start))
  read_struct(reader, item, field.element, path)
  item:set_len(reader.at - start)
end

local TOPIC_NAMES = { topic = true, name = true, topicId = true }
local function read_field(reader, tree, field, path, in_tag)
  reader.names[#reader.names + 1] = field.name
  local value = read_value(reader, tree, field, path .. "." .. field.key, in_tag)
  if TOPIC_NAMES[field.name] then reader.topic = value end -- Says what the records below it are.
  if field.name == "position" then reader.position = reader.tvb(reader.at - 8, 8):int64():tonumber() end
  table.remove(reader.names)
end

local function read_tags(reader, tree, layout, path)
  local start = reader.at
  local count = uvarint(reader)
  local branch = tree:add(F.tags, reader.tvb(start, reader.at - start), count)
  if count == 0 then branch:set_hidden() end
  local last = -1
  for _ = 1, count do
    local at = reader.at
    local tag = uvarint(reader)
    if tag <= last then
      warn(reader, tag == last and "tag_duplicate" or "tag_out_of_order", "tag " .. tag .. " follows tag " .. last, at)
    end
    last = tag
    if layout.later[tag] then warn(reader, "tag_below_version", "tag " .. tag .. " is of another version only", at) end
    local size_at = reader.at
    local size = uvarint(reader)
    local item = branch:add(F.tag, reader.tvb(at, size_at - at), tag)
    item:add(F["tag.size"], reader.tvb(size_at, reader.at - size_at), size)
    local left = reader.stop - reader.at
    if size > left then
      fail(reader, "length_exceeds_input", "tag " .. tag .. " has " .. size .. " bytes, " .. left .. " are left", size_at)
    end
    item:set_len(reader.at + size - at)
    local body, field = reader.at, layout.tagged[tag]
    if field then
      item:append_text(" (" .. field.name .. ")")
      read_field(reader, item, field, path, true)
      if reader.at - body ~= size then
        reader.names[#reader.names + 1] = field.name
        fail(reader, "tagged_size_mismatch", "tag " .. tag .. " says " .. size .. " bytes and holds " .. reader.at - body, size_at)
      end
    else
      reader.at = body + size
      item:add(F["tag.unknown"], reader.tvb(body, size))
    end
  end
  branch:set_len(reader.at - start)
end

function read_struct(reader, tree, number, path)
  local layout = layout_of(number)
  for _, field in ipairs(layout.fields) do read_field(reader, tree, field, path, false) end
  if layout.flexible then read_tags(reader, tree, layout, path) end
end

-- Run `body(reader)`; what it fails with has been said already. Returns whether it did not fail.
local function reading(reader, body)
  local done, problem = pcall(body, reader)
  if not done and problem ~= reader then error(problem, 0) end
  return done
end

local function new_reader(tvb, root, at, stop)
  return { tvb = tvb, root = root, at = at, stop = stop, from = at, names = {} }
end

-- A reader of a part, whose errors are named as those of the whole.
local function inner_reader(outer, from, to)
  local reader = new_reader(outer.tvb, outer.root, from, to)
  reader.from, reader.topic = outer.from, outer.topic
  for _, name in ipairs(outer.names) do table.insert(reader.names, name) end
  return reader
end

-- Read a message that ends where the reader does.
local function read_message(reader, tree, number, path)
  return reading(reader, function()
    read_struct(reader, tree, number, path)
    if reader.at < reader.stop then
      fail(reader, "trailing", reader.stop - reader.at .. " bytes follow the message", reader.at)
    end
  end)
end
