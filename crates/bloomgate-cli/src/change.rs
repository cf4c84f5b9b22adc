//! What the verbs that change a filter share: which filter, which keys, and where the result goes.

use std::path::{Path, PathBuf};

use bloomgate::Contract;
use bloomgate::foreign::Form;

use crate::conveyor::{Batch, Conveyor};
use crate::digest;
use crate::failure::Failure;
use crate::file::{self, Update};
use crate::keys::{Reading, Source, Strange, bytes_of};
use crate::progress::Progress;
use crate::screen;

/// A filter, and the keys that come or go.
#[derive(Debug, clap::Args)]
pub struct Change {
    /// The filter
    #[arg(value_name = "FILTER")]
    pub filter: PathBuf,
    /// Files of keys, one a line; - or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the result here, and leave the filter as it is
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the filter as the form of another system (see check --help)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress bar and no summary
    #[arg(short, long)]
    pub quiet: bool,
}

impl Change {
    /// The filter, when it is our turn to change it.
    pub fn begin(&self) -> Result<Update, Failure> {
        if let Some(output) = &self.output {
            // What is read is not replaced: neither the keys nor the secret, without which no keyed filter can be opened
            // any more.
            let secret_file = self.secret_file.iter().cloned().map(Source::File);
            let read: Vec<Source> = Source::all(&self.files).into_iter().chain(secret_file).collect();
            file::check_target(output, &read)?;
        }
        let update = Update::begin(&self.filter, self.output.as_deref(), self.form, self.secret_file.as_deref())?;
        digest::refuse_given(update.filter.contract())?;
        Ok(update)
    }

    /// Where the result goes.
    pub fn written(&self) -> &Path {
        self.output.as_deref().unwrap_or(&self.filter)
    }

    /// Hands over all keys as digests, and gives how many there were. What looks strange in them is told.
    pub fn each(
        &self,
        contract: &Contract,
        doing: &'static str,
        mut take: impl FnMut(&Batch) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let sources = Source::all(&self.files);
        let progress = Progress::new(doing, bytes_of(&sources)?, self.quiet);
        let mut conveyor = Conveyor::start(&sources, &self.reading, contract);
        let mut strange = Strange::default();
        let mut read = 0;
        while let Some(batch) = conveyor.next()? {
            if batch.begins {
                strange.look(&self.reading.cut, &batch.block.keys());
            }
            read += batch.digests.len() as u64;
            take(&batch)?;
            progress.advance(batch.block.consumed());
            conveyor.recycle(batch);
        }
        drop(progress);
        if !self.quiet {
            conveyor.skipped().into_iter().for_each(screen::note);
            strange.tell();
        }
        Ok(read)
    }
}
