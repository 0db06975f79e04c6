//! Declarations of how shapes are read, one line for each: see [`super::shape`].

/// Declares how a struct is read: its members in the order in which they are written, each with its name in the
/// text where that is another, and the method of [`Reader`] that reads it where that is not `member`.
#[macro_export]
#[doc(hidden)]
macro_rules! reads {
    ($($type:ident { $($field:ident $(: $name:literal)? $(by $method:ident)?),* $(,)? })*) => {$(
        impl $crate::value::shape::Read for $type {
            fn read(reader: &mut $crate::value::shape::Reader<'_>) -> Self {
                reader.open();
                let shape = $type { $($field: $crate::reads!(@ reader, $field $(: $name)? $(by $method)?)),* };
                reader.close();
                shape
            }
        }
    )*};
    (@ $reader:ident, $field:ident) => { $reader.member(stringify!($field)) };
    (@ $reader:ident, $field:ident : $name:literal) => { $reader.member($name) };
    (@ $reader:ident, $field:ident by $method:ident) => { $reader.$method(stringify!($field)) };
    (@ $reader:ident, $field:ident : $name:literal by $method:ident) => { $reader.$method($name) };
}

/// Declares the names of an enum without content.
#[macro_export]
#[doc(hidden)]
macro_rules! reads_names {
    ($($type:ident { $blank:ident: $blank_name:literal $(, $variant:ident: $name:literal)* $(,)? })*) => {$(
        impl $crate::value::shape::Read for $type {
            fn read(reader: &mut $crate::value::shape::Reader<'_>) -> Self {
                match &*reader.text() {
                    $blank_name => return $type::$blank,
                    $($name => return $type::$variant,)*
                    _ => reader.fail_name(&[$blank_name $(, $name)*]),
                }
                $type::$blank
            }
        }
    )*};
}

/// Declares the variants of an enum that is written as an object with one member.
#[macro_export]
#[doc(hidden)]
macro_rules! reads_variants {
    ($type:ty { $blank:ident: $blank_name:literal $(, $variant:ident: $name:literal)* $(,)? }) => {
        impl $crate::value::shape::Read for $type {
            fn read(reader: &mut $crate::value::shape::Reader<'_>) -> Self {
                use $crate::value::shape::Read;
                let shape = match &*reader.variant() {
                    $($name => Self::$variant(Read::read(reader)),)*
                    found => {
                        if found != $blank_name {
                            reader.fail_name(&[$blank_name $(, $name)*]);
                        }
                        Self::$blank(Read::read(reader))
                    }
                };
                reader.end_variant();
                shape
            }
        }
    };
}

/// Lets a shape stand in others that serde reads.
#[macro_export]
#[doc(hidden)]
macro_rules! reads_within_serde {
    ($($type:ty),* $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = $crate::value::CanonicalJson::deserialize(deserializer)?;
                $crate::value::shape::read_any(text.as_str()).map_err(serde::de::Error::custom)
            }
        }
    )*};
}
